// `muster ca rotate`: replaces the CA in three steps. After each, `secrets.json` holds the secrets that the Worker gets
// next; a step that is repeated writes it again.

import { join } from 'node:path'
import { encodePem } from '../protocol/pem.ts'
import { rfc3339, systemClock, toEpochSeconds } from '../protocol/time.ts'
import { fetchRoots, summarize } from './ca/certificates.ts'
import { CA_FILES, DEFAULT_CA_DIR, loadFolder, readCaCertificates, readCaFile, requireFolder } from './ca/folder.ts'
import {
  activateNext,
  faultOfNext,
  isActivating,
  nextOf,
  oldOf,
  placeNext,
  previousOf,
  refuseStrays,
  removeNext,
  retirePrevious,
  rotationState,
  wasRetired,
  writeSecretFile,
} from './ca/rotation.ts'
import { retiredKeysText, rotationText, standingOf } from './ca/standing.ts'
import {
  CommandError,
  command,
  DATABASE,
  group,
  print,
  type SharedName,
  type SharedOptions,
} from './operator/command.ts'
import { stateName } from './store/state-name.ts'

interface RotateOptions extends SharedOptions {
  readonly dir: string
}

interface ActivateOptions extends RotateOptions {
  readonly url?: string
  readonly force?: true
}

interface RetireOptions extends RotateOptions {
  readonly force?: true
}

const SECRETS = 'secrets.json'

export function rotateCommand() {
  const rotate = group('rotate', 'replace the certificate authority while runners go on').addHelpText('after', HELP)
  const step = (name: string, summary: string, uses: readonly SharedName[] = ['json', 'env']) =>
    command(name, summary, uses).option('--dir <dir>', 'the CA folder', DEFAULT_CA_DIR)
  rotate.addCommand(
    step('prepare', 'make the new CA and put its root into the bundle')
      .addHelpText('after', '\nExample:\n  muster ca rotate prepare --dir ca')
      .action((options: RotateOptions) => prepare(options)),
  )
  rotate.addCommand(
    step('activate', 'let the new CA sign; certificates of the old one remain accepted')
      .option('--url <url>', 'address of the live Muster, whose bundle must have both roots (required without --force)')
      .option('--force', 'do not check the bundle: whoever lacks the new root rejects every new certificate')
      .addHelpText('after', '\nExample:\n  muster ca rotate activate --url https://muster.example')
      .action((options: ActivateOptions) => activate(options)),
  )
  rotate.addCommand(
    step('retire', 'stop accepting the old CA; refused while live runners hold its certificates', DATABASE)
      .option('--force', 'retire it all the same: those runners must enroll anew')
      .addHelpText('after', '\nExample:\n  muster ca rotate retire --remote')
      .action((options: RetireOptions) => retire(options)),
  )
  return rotate
}

const HELP = `
  prepare    the old CA signs, the bundle has both roots
  activate   the new CA signs, the bundle has both roots; wait a day after prepare, so that all have the bundle
  retire     the old CA is no longer accepted
Each step writes ${SECRETS} into the CA folder, which is given to the Worker as a whole with: npx wrangler secret bulk
A step that is repeated makes nothing new and writes the same file.

Example:
  muster ca rotate prepare --dir ca`

async function prepare({ dir, ...options }: RotateOptions): Promise<void> {
  if (rotationState(dir) === 'activated' || isActivating(dir)) throw outOfOrder(dir)
  const again = rotationState(dir) === 'prepared'
  if (again) refuseStrays(dir)
  const fault = again ? await faultOfNext(dir) : null
  if (!again || fault !== null) {
    await loadFolder(dir)
    readCaFile(dir, CA_FILES.root)
    const { createCa } = await import('./ca/create.ts')
    placeNext(dir, await createCa({ development: false, now: toEpochSeconds(systemClock()) }))
  }
  writeSecrets(dir, { CA_TRUST: readCaFile(nextOf(dir), CA_FILES.root) })
  report(dir, options, again && fault === null)
  if (fault !== null) warn(`begun anew, since the CA that was prepared could not be used: ${fault}`)
}

async function activate({ dir, url, force, ...options }: ActivateOptions): Promise<void> {
  const state = rotationState(dir)
  if (state === 'none') throw outOfOrder(dir)
  if (state === 'prepared') {
    refuseStrays(dir)
    const fault = await faultOfNext(dir)
    if (fault !== null) {
      throw new CommandError(`${fault}${isActivating(dir) ? '' : ' (`muster ca rotate prepare` begins anew)'}`)
    }
    if (force) warn('activated without a look at the bundle: whoever lacks the new root trusts nothing that it signs')
    else await requireBothRoots(dir, url)
    activateNext(dir)
  }
  await loadFolder(dir)
  const previous = previousOf(dir)
  writeSecrets(dir, {
    CA_KEY: readCaFile(dir, CA_FILES.issuingKey),
    CA_CERT: readCaFile(dir, CA_FILES.issuing),
    CA_PREVIOUS: leafIssuerOf(previous),
    CA_TRUST: readCaFile(previous, CA_FILES.root),
  })
  removeNext(dir)
  report(dir, options, state === 'activated')
}

async function retire({ dir, force, ...options }: RetireOptions): Promise<void> {
  const state = rotationState(dir)
  const again = state === 'none' && wasRetired(dir)
  if (state !== 'activated' && !again) throw outOfOrder(dir)
  const now = toEpochSeconds(systemClock())
  if (!force && !again) {
    const issuer = await issuerOf(previousOf(dir))
    const { withDatabases } = await import('./store/database.ts')
    const { countUnderIssuer } = await import('../worker/store/enrollments.ts')
    const counts = await withDatabases(options, ({ all }) =>
      Promise.all(all.map((db) => countUnderIssuer(db, issuer, now))),
    )
    const runners = counts.reduce((sum, count) => sum + count, 0)
    if (runners > 0) {
      throw new CommandError(
        `${runners} live ${runners === 1 ? 'runner holds a certificate' : 'runners hold certificates'} of the old CA by ${await stateName(options)} (a row of the fleet may be an hour old): wait, or --force and let them enroll anew`,
      )
    }
  }
  writeSecrets(dir, { CA_PREVIOUS: '', CA_TRUST: '' })
  if (!again) retirePrevious(dir, rfc3339(now))
  report(dir, options, again)
}

/** What `secrets.json` gives the Worker is one change: key and certificate must never be seen apart. */
function writeSecrets(dir: string, secrets: Readonly<Record<string, string>>): void {
  writeSecretFile(dir, SECRETS, `${JSON.stringify(secrets, null, 2)}\n`)
}

function outOfOrder(dir: string): CommandError {
  requireFolder(dir)
  return new CommandError(`${dir}: ${rotationText(dir)}`)
}

function warn(text: string): void {
  process.stderr.write(`muster: ${text}\n`)
}

/** `again`: the step was done before. */
function report(dir: string, options: SharedOptions, again: boolean): void {
  const secrets = join(dir, SECRETS)
  const certificates = readCaCertificates(dir, CA_FILES.issuing).map(summarize)
  const { text, when, command } = standingOf(dir)
  print(options, { dir, rotation: rotationState(dir), again, secrets, certificates }, () =>
    [
      ...(again ? [`done already: nothing is made anew, and ${secrets} is written again`] : []),
      text,
      '',
      'now:',
      `  npx wrangler secret bulk ${secrets}${options.env === undefined ? '' : ` --env ${options.env}`}`,
      `  then remove ${secrets}`,
      ...(rotationState(dir) === 'none' ? retiredKeysText(dir) : ['', `next, ${when}:`, `  ${command}`]),
    ].join('\n'),
  )
}

/** The old issuing certificate alone (PEM): CA_PREVIOUS accepts what these signed, and a root signs no leaf. */
function leafIssuerOf(dir: string): string {
  const [issuing] = readCaCertificates(dir, CA_FILES.issuing)
  return encodePem('CERTIFICATE', issuing.raw)
}

async function issuerOf(dir: string): Promise<string> {
  const { loadAuthority } = await import('../worker/ca/authority.ts')
  const loaded = await loadAuthority({
    caKey: readCaFile(dir, CA_FILES.issuingKey),
    caCert: readCaFile(dir, CA_FILES.issuing),
    allowDevelopment: true,
  })
  if (!loaded.ok) throw new CommandError(`${dir}: ${loaded.error.detail}`)
  return loaded.value.issuerKeyId
}

/** Refuses unless the live bundle has both roots: the new CA must not sign before. */
async function requireBothRoots(dir: string, url: string | undefined): Promise<void> {
  if (url === undefined) {
    throw new CommandError('--url is missing: the live Muster, whose bundle must have both roots (or --force)')
  }
  const live = await fetchRoots(url)
  const lacks = (folder: string) => {
    const [root] = readCaCertificates(folder, CA_FILES.root)
    return !live.some(({ fingerprint256 }) => fingerprint256 === root.fingerprint256)
  }
  if (lacks(oldOf(dir)))
    throw new CommandError(`the bundle at ${url} has not the root of ${dir}: is it another Muster?`)
  if (lacks(nextOf(dir))) {
    throw new CommandError(`the bundle at ${url} has not the new root yet: give it CA_TRUST first, and wait a day`)
  }
}
