// `muster ca`: makes a certificate authority and shows one; `issue` and `rotate` are in files of their own.

import { join } from 'node:path'
import { systemClock, toEpochSeconds } from '../protocol/time.ts'
import { type CertificateSummary, fetchRoots, parseCertificates, summarize } from './ca/certificates.ts'
import {
  CA_FILES,
  DEFAULT_CA_DIR,
  loadFolder,
  readCaCertificates,
  readCaFile,
  refuseTaken,
  writeCaFolder,
  writeNew,
} from './ca/folder.ts'
import { retiredKeys, rotationState } from './ca/rotation.ts'
import { retiredKeysText, rotationText } from './ca/standing.ts'
import { type IssueOptions, issue } from './ca-issue.ts'
import { rotateCommand } from './ca-rotate.ts'
import { CommandError, command, DATABASE, group, print, type SharedOptions } from './operator/command.ts'

interface DirOptions extends SharedOptions {
  readonly dir: string
}

interface InitOptions extends DirOptions {
  readonly devVars?: true
}

interface ShowOptions extends DirOptions {
  readonly url?: string
}

const DEV_VARS = '.dev.vars'

export function caCommand() {
  const ca = group('ca', 'make the certificate authority, and certificates from it')
  ca.addCommand(
    command('init', 'make a root, to be kept offline, and the issuing certificate', ['json'])
      .option('--dir <dir>', 'the new CA folder', DEFAULT_CA_DIR)
      .option('--dev-vars', `write the secrets to ${DEV_VARS} too, for a plain wrangler dev`)
      .addHelpText('after', '\nExample:\n  muster ca init --dir ca')
      .action((options: InitOptions) => init(options)),
  )
  ca.addCommand(
    command('show', 'show a CA folder, and whether its key and certificate are a pair', ['json'])
      .option('--dir <dir>', 'the CA folder', DEFAULT_CA_DIR)
      .option('--url <url>', 'show the roots that the Muster at this address hands out, instead of a folder')
      .addHelpText('after', '\nExample:\n  muster ca show --url https://muster.example')
      .action((options: ShowOptions) => show(options)),
  )
  ca.addCommand(
    command('issue', 'make the certificate of a machine that cannot enroll', [...DATABASE, 'trust'])
      .option('--dir <dir>', 'the CA folder', DEFAULT_CA_DIR)
      .requiredOption('--out <dir>', 'where cert.pem, key.pem and ca.pem go (required)')
      .requiredOption('--tenant <slug>', 'the tenant of its holder (required)')
      .option('--ttl <duration>', 'how long it lasts: 5m to 2160h', '720h')
      .addHelpText(
        'after',
        '\nIts enrollment is recorded.\n\nExample:\n  muster ca issue --tenant acme --out certs --remote',
      )
      .action((options: IssueOptions) => issue(options)),
  )
  ca.addCommand(rotateCommand())
  return ca
}

async function init({ dir, devVars, ...options }: InitOptions): Promise<void> {
  if (devVars) refuseTaken('.', [DEV_VARS])
  const { createCa } = await import('./ca/create.ts')
  const ca = await createCa({ development: false, now: toEpochSeconds(systemClock()) })
  writeCaFolder(dir, ca)
  if (devVars) {
    // In double quotes the line ends of a PEM stand as they are.
    writeNew('.', [[DEV_VARS, `CA_KEY="${ca.issuingKey}"\nCA_CERT="${ca.issuing}"\n`, 0o600]])
  }
  const files = Object.values(CA_FILES).map((name) => join(dir, name))
  const certificates = readCaCertificates(dir, CA_FILES.issuing).map(summarize)
  print(options, { dir, files: devVars ? [...files, DEV_VARS] : files, certificates }, () =>
    [
      ...files.map((file) => `wrote ${file}`),
      ...(devVars ? [`wrote ${DEV_VARS}`] : []),
      '',
      ...certificates.map(line),
      '',
      'next:',
      `  npx wrangler secret put CA_KEY < ${join(dir, CA_FILES.issuingKey)}`,
      `  npx wrangler secret put CA_CERT < ${join(dir, CA_FILES.issuing)}`,
      `  keep ${join(dir, CA_FILES.rootKey)} offline: no step of a rotation needs it`,
    ].join('\n'),
  )
}

async function show({ dir, url, ...options }: ShowOptions): Promise<void> {
  if (url !== undefined) return showLive(url, options)
  const issuing = parseCertificates(readCaFile(dir, CA_FILES.issuing))
  const certificates = issuing.ok ? issuing.value.map(summarize) : []
  const fault = await loadFolder(dir).then(
    () => null,
    (error) => {
      if (error instanceof CommandError) return error.message
      throw error
    },
  )
  const rotation = rotationState(dir)
  print(options, { dir, pair: fault === null, fault, rotation, certificates, retiredKeys: retiredKeys(dir) }, () =>
    [
      ...certificates.map(line),
      fault === null ? 'key and certificates are a pair' : `fault: ${fault}`,
      rotationText(dir),
      ...retiredKeysText(dir),
    ].join('\n'),
  )
  if (fault !== null) process.exitCode = 1
}

async function showLive(url: string, options: SharedOptions): Promise<void> {
  const certificates = (await fetchRoots(url)).map(summarize)
  print(options, { url, certificates }, () => certificates.map(line).join('\n'))
}

const line = ({ subject, notAfter, fingerprint }: CertificateSummary): string =>
  `${subject}\n  until ${notAfter}  sha256 ${fingerprint}`
