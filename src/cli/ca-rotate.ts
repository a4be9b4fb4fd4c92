// `muster ca rotate`: a new CA beside the old one, in three steps. Folders `next` and `previous` in the CA folder say
// where a rotation is; the file `secrets.json` always holds what the Worker is to be given next.

import { existsSync, mkdirSync, readdirSync, renameSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { rfc3339, systemClock, toEpochSeconds } from '../protocol/time.ts'
import { CA_FILES, DEFAULT_CA_DIR, loadFolder, readCaFile, showCertificates, writeCaFolder } from './ca-folder.ts'
import { liveCertificates } from './ca-live.ts'
import { CommandError, command, group, print, type SharedOptions } from './command.ts'

interface RotateOptions extends SharedOptions {
  readonly dir: string
}

interface ActivateOptions extends RotateOptions {
  readonly url?: string
}

interface RetireOptions extends RotateOptions {
  readonly force?: true
}

const NEXT = 'next'
const PREVIOUS = 'previous'
const SECRETS = 'secrets.json'

/** Where a rotation is. */
export type RotationState = 'none' | 'prepared' | 'activated'

export function rotationState(dir: string): RotationState {
  if (existsSync(join(dir, NEXT))) return 'prepared'
  return existsSync(join(dir, PREVIOUS)) ? 'activated' : 'none'
}

/** One sentence: where the rotation is, and what comes next. */
export function rotationText(dir: string): string {
  switch (rotationState(dir)) {
    case 'none':
      return 'no rotation is under way; it starts with `muster ca rotate prepare`'
    case 'prepared':
      return 'rotation prepared: the old CA signs, the bundle shall have both roots; next: `muster ca rotate activate`'
    case 'activated':
      return 'rotation activated: the new CA signs, certificates of the old one are accepted; next: `muster ca rotate retire`'
  }
}

export function rotateCommand() {
  const rotate = group('rotate', 'replace the certificate authority while runners go on').addHelpText('after', HELP)
  const step = (name: string, summary: string) =>
    command(name, summary).option('--dir <dir>', 'the CA folder', DEFAULT_CA_DIR)
  rotate.addCommand(
    step('prepare', 'make the new CA and put its root into the bundle').action((options: RotateOptions) =>
      prepare(options),
    ),
  )
  rotate.addCommand(
    step('activate', 'let the new CA sign; certificates of the old one stay good')
      .option('--url <url>', 'refuse unless the Muster at this address hands out the new root')
      .action((options: ActivateOptions) => activate(options)),
  )
  rotate.addCommand(
    step('retire', 'accept the old CA no more; refused while live runners hold its certificates')
      .option('--force', 'retire it all the same: those runners must enroll anew')
      .action((options: RetireOptions) => retire(options)),
  )
  return rotate
}

const HELP = `
  prepare    the old CA signs, the bundle has both roots
  activate   the new CA signs, the bundle has both roots; wait a day after prepare, so that all have the bundle
  retire     the old CA is gone
Each step writes ${SECRETS} into the CA folder, and the Worker learns it at once with: npx wrangler secret bulk`

async function prepare({ dir, ...options }: RotateOptions): Promise<void> {
  const state = rotationState(dir)
  if (state !== 'none') throw new CommandError(`${dir}: ${rotationText(dir)}`)
  await loadFolder(dir)
  const { createCa } = await import('../worker/ca/create.ts')
  writeCaFolder(join(dir, NEXT), await createCa({ development: false, now: toEpochSeconds(systemClock()) }))
  writeSecrets(dir, { CA_TRUST: readCaFile(join(dir, NEXT), CA_FILES.root) })
  report(dir, options)
}

async function activate({ dir, url, ...options }: ActivateOptions): Promise<void> {
  if (rotationState(dir) !== 'prepared') throw new CommandError(`${dir}: ${rotationText(dir)}`)
  const next = join(dir, NEXT)
  const previous = join(dir, PREVIOUS)
  // Where an earlier try was cut off, files have moved already.
  if ([CA_FILES.issuingKey, CA_FILES.issuing].every((name) => existsSync(join(next, name)))) await loadFolder(next)
  if (url !== undefined) await seeRoot(next, url)
  mkdirSync(previous, { recursive: true, mode: 0o700 })
  for (const name of Object.values(CA_FILES)) {
    if (!existsSync(join(previous, name))) moveIfThere(join(dir, name), join(previous, name))
    moveIfThere(join(next, name), join(dir, name))
  }
  writeSecrets(dir, {
    CA_KEY: readCaFile(dir, CA_FILES.issuingKey),
    CA_CERT: readCaFile(dir, CA_FILES.issuing),
    CA_PREVIOUS: leafIssuerOf(previous),
    CA_TRUST: readCaFile(previous, CA_FILES.root),
  })
  if (readdirSync(next).length > 0) throw new CommandError(`${next} holds files that are not of a CA: move them away`)
  rmdirSync(next)
  report(dir, options)
}

async function retire({ dir, force, ...options }: RetireOptions): Promise<void> {
  if (rotationState(dir) !== 'activated') throw new CommandError(`${dir}: ${rotationText(dir)}`)
  const previous = join(dir, PREVIOUS)
  const now = toEpochSeconds(systemClock())
  if (!force) {
    const issuer = await issuerOf(previous)
    const { withDatabase } = await import('./database.ts')
    const { countUnderIssuer } = await import('../worker/store/enrollments.ts')
    const runners = await withDatabase(options, (db) => countUnderIssuer(db, issuer, now))
    if (runners > 0) {
      throw new CommandError(
        `${runners} live ${runners === 1 ? 'runner holds a certificate' : 'runners hold certificates'} of the old CA (a row of the fleet may be an hour old): wait, or --force and let them enroll anew`,
      )
    }
  }
  writeSecrets(dir, { CA_PREVIOUS: '', CA_TRUST: '' })
  renameSync(previous, join(dir, `retired-${rfc3339(now).replaceAll(':', '')}`))
  report(dir, options)
}

/** What `secrets.json` gives the Worker is one change: key and certificate must never be seen apart. */
function writeSecrets(dir: string, secrets: Readonly<Record<string, string>>): void {
  writeFileSync(join(dir, SECRETS), `${JSON.stringify(secrets, null, 2)}\n`, { mode: 0o600 })
}

function report(dir: string, options: SharedOptions): void {
  const secrets = join(dir, SECRETS)
  const certificates = showCertificates(readCaFile(dir, CA_FILES.issuing))
  print(options, { dir, rotation: rotationState(dir), secrets, certificates }, () =>
    [
      rotationText(dir),
      '',
      'now:',
      `  npx wrangler secret bulk ${secrets}${options.env === undefined ? '' : ` --env ${options.env}`}`,
      `  then remove ${secrets}`,
    ].join('\n'),
  )
}

/** The old issuing certificate alone: CA_PREVIOUS accepts what these signed, and a root signs no leaf. */
function leafIssuerOf(dir: string): string {
  const text = readCaFile(dir, CA_FILES.issuing)
  const end = '-----END CERTIFICATE-----'
  return `${text.slice(0, text.indexOf(end) + end.length)}\n`
}

async function issuerOf(dir: string): Promise<string> {
  const { loadAuthority } = await import('../worker/ca/authority.ts')
  const loaded = await loadAuthority({
    caKey: readCaFile(dir, CA_FILES.issuingKey),
    caCert: readCaFile(dir, CA_FILES.issuing),
    allowDevelopment: true,
  })
  if (!loaded.ok) throw new CommandError(`${dir}: ${loaded.refusal.detail}`)
  return loaded.value.issuerKeyId
}

/** The root's key is kept elsewhere, as it should be. */
function moveIfThere(from: string, to: string): void {
  if (existsSync(from)) renameSync(from, to)
}

async function seeRoot(next: string, url: string): Promise<void> {
  const [root] = showCertificates(readCaFile(next, CA_FILES.root))
  const live = await liveCertificates(url)
  if (!live.some(({ fingerprint }) => fingerprint === root?.fingerprint)) {
    throw new CommandError(`the bundle at ${url} has not the new root yet: give it CA_TRUST first, and wait a day`)
  }
}
