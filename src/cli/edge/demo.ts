// Runs the demonstration of `muster dev --demo` (`npm start`): boots a runner and says what to try next.

import { type ChildProcess, spawn } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { BUNDLE_PEM_PATH } from '../../protocol/paths.ts'
import { DEFAULT_STATE } from '../operator/command.ts'
import { bold, dim, type EdgeLog, readObject } from './log.ts'
import { PROJECT } from './project.ts'
import type { Edge } from './start.ts'
import { stateFolder } from './state.ts'
import { watch } from './watchdog.ts'

export interface DemoOptions {
  readonly edge: Edge
  readonly tenant: string
  /** The runner enrolls with it. */
  readonly token: string
  readonly persistTo: string
  readonly trust: string
  /** wrangler's. */
  readonly environment: string | undefined
  readonly log: EdgeLog
  /** Ends the wait for the runner. */
  readonly ending: AbortSignal
}

export interface Demo {
  /** The last screen. */
  readonly screen: string
  /** Ends the runner. */
  readonly stop: () => Promise<void>
}

/** Milliseconds that a runner may take to be ready, and to close its tunnel at the end. */
const READY_WITHIN = 20_000
const END_WITHIN = 3500

export async function startDemo(options: DemoOptions): Promise<Demo> {
  const folder = join(stateFolder(options.persistTo).own, 'demo')
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const runner = bootRunner(options, folder)
  const patience = sleep(READY_WITHIN, undefined, { ref: false, signal: options.ending }).catch(() => {})
  await Promise.race([runner.ready, runner.exited, patience])
  return { screen: screenOf(options, folder, runner.state()), stop: runner.stop }
}

const CLI = join(PROJECT, 'src/cli/main.ts')

function bootRunner({ edge, token, log }: DemoOptions, folder: string) {
  const { tlsUrl, caFile } = edge
  // The variables of another runner in this shell are not passed on.
  const others = Object.entries(process.env).filter(([name]) => !/^(COMPASS_)?RUNNER_/.test(name))
  const env = {
    ...Object.fromEntries(others),
    RUNNER_ATTESTATION_MODE: 'bootstrap-token',
    RUNNER_ENROLL_URL: tlsUrl,
    RUNNER_BOOTSTRAP_TOKEN: token,
    RUNNER_CA_PEM: caFile,
    RUNNER_IDENTITY_DIR: folder,
    RUNNER_INSTANCE_ID: 'demo',
  }
  const child = spawn(process.execPath, [CLI, 'runner'], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  const pidFile = join(folder, 'pid')
  writeFileSync(pidFile, String(child.pid))
  const unwatch = watch(pidFile)
  const exited = new Promise<void>((resolve) => child.on('close', () => resolve()))
  const { promise: ready, resolve } = Promise.withResolvers<void>()
  let state = 'not started'
  createInterface({ input: child.stdout }).on('line', (line) => {
    log.write('runner', 'info', line)
    const fields = readObject(line)
    if (typeof fields?.state === 'string') state = fields.state
    if (state === 'ready') resolve()
  })
  const stop = async (): Promise<void> => {
    await end(child, exited)
    await unwatch()
  }
  return { ready, exited, stop, state: () => (child.exitCode === null ? state : `ended with code ${child.exitCode}`) }
}

/** After Ctrl-C the runner has the signal already, and a second one would end it at once. */
async function end(child: ChildProcess, exited: Promise<void>): Promise<void> {
  await Promise.race([exited, sleep(100, undefined, { ref: false })])
  if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM')
  await Promise.race([exited, sleep(END_WITHIN, undefined, { ref: false })])
  child.kill('SIGKILL')
  await exited
}

function screenOf(options: DemoOptions, folder: string, state: string): string {
  const { url, tlsUrl, caFile } = options.edge
  const facts = [
    ['http', `${url}   for this machine alone`],
    ['TLS', `${tlsUrl}  asks for client certificates`],
    ['CA', `${relativePath(caFile)}  what clients trust for TLS`],
    ['runner', `${state}, tenant ${options.tenant}`],
    ...certificateFacts(folder),
  ]
  const lines = facts.map(([name = '', text = '']) => `  ${dim(name.padEnd(8))}${text}`)
  const tries = commands(options, folder).map(([why, what]) => `  ${dim(`# ${why}`)}\n  ${what}\n`)
  const title = bold(
    state === 'ready' ? 'A runner is enrolled, connected and ready.' : `The runner is not ready: ${state}.`,
  )
  return `\n${title}\n\n${lines.join('\n')}\n\n${bold('Try next, in another terminal:')}\n\n${tries.join('\n')}\n${dim('Ctrl-C ends it all; the state stays.')}\n\n`
}

/** Splits what the runner persisted into files that OpenSSL reads, and says what the certificate says. */
function certificateFacts(folder: string): [string, string][] {
  try {
    const identity = JSON.parse(readFileSync(join(folder, 'identity.json'), 'utf8'))
    writeFileSync(join(folder, 'leaf.pem'), identity.certificate)
    writeFileSync(join(folder, 'chain.pem'), identity.chain)
    writeFileSync(join(folder, 'roots.pem'), identity.trustBundle)
    const leaf = new X509Certificate(identity.certificate)
    const minutes = Math.round((leaf.validToDate.getTime() - Date.now()) / 60_000)
    return [
      ['SPIFFE', (leaf.subjectAltName ?? '').replace(/^URI:/, '')],
      ['valid', `until ${leaf.validToDate.toISOString().slice(11, 19)} UTC, ${minutes} minutes; renewed before that`],
      ['serial', leaf.serialNumber.toLowerCase()],
    ]
  } catch {
    return []
  }
}

/** The commands to try next, each with its purpose. Options that have their default here are left out. */
function commands({ edge, tenant, persistTo, trust, environment }: DemoOptions, folder: string): [string, string][] {
  const { url, tlsUrl, caFile } = edge
  const same = [
    persistTo === DEFAULT_STATE ? '' : ` --persist-to ${persistTo}`,
    trust === 'trust.yaml' ? '' : ` --trust ${trust}`,
    environment === undefined ? '' : ` --env ${environment}`,
  ].join('')
  const muster = 'npm run -s muster --'
  const demo = relativePath(folder)
  return [
    [
      'a second runner, with a token of its own; Ctrl-C ends it',
      [
        `export RUNNER_ENROLL_URL=${tlsUrl} RUNNER_CA_PEM=${relativePath(caFile)}`,
        `export RUNNER_BOOTSTRAP_TOKEN=$(${muster} token mint --tenant ${tenant}${same} | head -1)`,
        `${muster} runner`,
      ].join('\n  '),
    ],
    ['a third one with the same token, which is used by now: the refusal has a requestId', `${muster} runner`],
    ['what was decided, and why', `${muster} events${same}\n  ${muster} explain <requestId>${same}`],
    [
      'the certificate, as OpenSSL sees it',
      [
        'openssl verify -x509_strict -purpose sslclient \\',
        `  -CAfile ${demo}/roots.pem \\`,
        `  -untrusted ${demo}/chain.pem \\`,
        `  ${demo}/leaf.pem`,
      ].join('\n  '),
    ],
    ['the roots that a service trusts to know this fleet', `curl -s ${url}${BUNDLE_PEM_PATH}`],
  ]
}

/** From where the command was started, where that is shorter. */
function relativePath(path: string): string {
  const short = relative(process.cwd(), path)
  return short.length < path.length ? short : path
}
