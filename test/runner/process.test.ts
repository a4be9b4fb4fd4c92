// Tests `muster runner` as a process and `muster/runner` as a library, against a real local edge and over real TLS.

import type { ChildProcess } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer as createHttpServer } from 'node:http'
import { type AddressInfo, createServer as createTcpServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect, createServer, type TLSSocket } from 'node:tls'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { systemClock } from '../../src/protocol/time.ts'
import { Runner, RunnerError } from '../../src/runner/index.ts'
import { type RunningEdge, startEdge } from '../end-to-end/edge.ts'
import { MAIN } from '../end-to-end/muster.ts'
import { closeInTheEnd, spawnNode } from '../end-to-end/processes.ts'
import { FakeControlPlane } from '../fakes/control-plane.ts'
import { type FakeIssuer, makeIssuer, makeIssuerKey } from '../fakes/issuer.ts'
import { serveIssuer } from '../fakes/issuer-server.ts'
import { fakeSts } from '../fakes/sts.ts'
import { serveSts } from '../fakes/sts-server.ts'
import type { Line } from './harness.ts'

interface RunningRunner {
  readonly child: ChildProcess
  readonly lines: Line[]
  readonly text: string[]
  readonly exited: Promise<number | null>
  /** The first line that fits; rejects where the process ends before. */
  readonly line: (fits: (line: Line) => boolean) => Promise<Line>
}

const children: ChildProcess[] = []
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
})

function run(
  env: Readonly<Record<string, string>>,
  args: readonly string[] = [],
  limit: string | null = null,
): RunningRunner {
  const child = spawnNode(MAIN, ['runner', ...args], {
    stderr: 'inherit',
    ...(limit !== null && { limit }),
    env: { PATH: process.env.PATH ?? '', ...env },
  })
  children.push(child)
  const lines: Line[] = []
  const text: string[] = []
  let look = () => {}
  createInterface({ input: child.stdout as NodeJS.ReadableStream }).on('line', (one) => {
    text.push(one)
    lines.push(JSON.parse(one))
    look()
  })
  const exited = new Promise<number | null>((resolve) => child.on('close', resolve))
  const line = (fits: (line: Line) => boolean): Promise<Line> =>
    new Promise((resolve, reject) => {
      look = () => {
        const found = lines.find(fits)
        if (found !== undefined) resolve(found)
      }
      look()
      exited.then((code) => reject(new Error(`the runner ended with ${code}:\n${text.join('\n')}`)))
    })
  return { child, lines, text, exited, line }
}

const isReady = (line: Line): boolean => line.state === 'ready'
const scratch = (): string => mkdtempSync(join(tmpdir(), 'muster-runner-'))

describe('against the local edge', () => {
  const sts = fakeSts(systemClock, [
    {
      accessKeyId: 'ASIAEXAMPLE0000000001',
      secretAccessKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
      sessionToken: 'session',
      arn: 'arn:aws:sts::123456789012:assumed-role/runner/i-0abc',
      userId: 'AROAEXAMPLE:i-0abc',
    },
  ])
  let edge: RunningEdge
  let issuer: FakeIssuer
  const servers: { close: () => Promise<void> }[] = []

  beforeAll(async () => {
    issuer = await makeIssuer('https://issuer.test', await makeIssuerKey('k'))
    const [keys, aws] = [await serveIssuer(issuer), await serveSts(sts)]
    servers.push(keys, aws)
    const cluster = '  - { name: prod, issuer: https://issuer.test, namespace: runners, serviceAccount: runner }'
    const mapping = '    aws: [{ account: "123456789012", role: runner }]'
    edge = await startEdge({
      trust: `bootstrapTenant: acme\nclusters:\n${cluster}\ntenants:\n  - slug: acme\n${mapping}\n`,
      outbound: { 'issuer.test': keys.url, 'sts.us-east-1.amazonaws.com': aws.url },
    })
  })
  afterAll(async () => {
    await edge.stop()
    for (const server of servers) await server.close()
  })

  async function mint(): Promise<string> {
    const { stdout, stderr } = await edge.muster('token', 'mint', '--tenant', 'acme', '--json')
    if (stdout === '') throw new Error(stderr)
    return JSON.parse(stdout).token
  }
  const overTls = () => ({ RUNNER_ENROLL_URL: edge.tlsUrl, RUNNER_CA_PEM: edge.caFile })

  test('it gets ready over mTLS, answers probes, and stops on SIGTERM with 0', async () => {
    const token = await mint()
    const runner = run({ ...overTls(), RUNNER_BOOTSTRAP_TOKEN: token, RUNNER_HEALTH_PORT: '0' })
    const { healthPort } = await runner.line(({ state }) => state === 'liveness')
    await runner.line(isReady)
    const probe = async (path: string) => (await fetch(`http://127.0.0.1:${healthPort}${path}`)).status
    expect([await probe('/healthz'), await probe('/readyz'), await probe('/')]).toEqual([200, 200, 404])
    runner.child.kill('SIGTERM')
    expect(await runner.exited).toBe(0)
    expect(runner.text.join('\n')).not.toContain(token)
    expect(runner.text.join('\n')).not.toMatch(/BEGIN|muster_bt_/)
  })

  test('where the edge sees no certificate it signs a challenge; a restart renews from RUNNER_IDENTITY_DIR', async () => {
    const folder = scratch()
    const first = run({
      RUNNER_ENROLL_URL: edge.url,
      RUNNER_BOOTSTRAP_TOKEN: await mint(),
      RUNNER_IDENTITY_DIR: folder,
    })
    await first.line(isReady)
    first.child.kill('SIGKILL')
    await first.exited
    const second = run({ ...overTls(), RUNNER_IDENTITY_DIR: folder })
    const renewed = await second.line(({ message }) => message === 'renewed')
    await second.line(isReady)
    expect(renewed.enrollmentId).toBe(first.lines.find(({ message }) => message === 'enrolled')?.enrollmentId)
  })

  test('a ban closes its tunnel, and it ends with 77', async () => {
    const runner = run({ ...overTls(), RUNNER_BOOTSTRAP_TOKEN: await mint() })
    const { enrollmentId } = await runner.line(({ message }) => message === 'enrolled')
    await runner.line(isReady)
    expect((await edge.muster('ban', '--enrollment', String(enrollmentId))).code).toBe(0)
    await fetch(`${edge.url}/cdn-cgi/local/scheduled`)
    expect(await runner.exited).toBe(77)
    expect(runner.lines.find(({ message }) => message === 'tunnel closed')).toMatchObject({ code: 4003 })
  })

  test('a token that was spent on another key is refused three times, exit 77', async () => {
    const token = await mint()
    const first = run({ ...overTls(), RUNNER_BOOTSTRAP_TOKEN: token })
    await first.line(isReady)
    const second = run({ ...overTls(), RUNNER_BOOTSTRAP_TOKEN: token })
    expect(await second.exited).toBe(77)
    const refused = second.lines.filter(({ code }) => code === 'attestation_invalid')
    expect(refused).toHaveLength(3)
    expect(refused[0]).toMatchObject({ level: 'error', message: 'enrollment refused: the credential, not the network' })
  })

  test('a projected token makes it the runner of its node, and an operator drains it to exit 0', async () => {
    const path = join(scratch(), 'token')
    const claims = { aud: ['compass-runner'], sub: 'system:serviceaccount:runners:runner' }
    const workload = { namespace: 'runners', serviceaccount: { name: 'runner' } }
    writeFileSync(path, `${await issuer.token(Math.floor(Date.now() / 1000), { claims, workload })}\n`)
    const runner = run(overTls(), ['--token-file', path, '--runner-id', 'prod/node-a_example_internal'])
    const enrolled = await runner.line(({ message }) => message === 'enrolled')
    expect(enrolled).toMatchObject({ runnerId: 'prod/node-a_example_internal', tenant: 'acme' })
    await runner.line(isReady)
    expect((await edge.muster('drain', '--runner-id', 'prod/node-a_example_internal')).code).toBe(0)
    await fetch(`${edge.url}/cdn-cgi/local/scheduled`)
    expect(await runner.exited).toBe(0)
    expect(runner.text.join('\n')).not.toContain(readFileSync(path, 'utf8').trim())
  })

  test('it enrolls by a signed STS request, and no part of the credentials is logged', async () => {
    const [key] = sts.keys
    const runner = run({
      ...overTls(),
      RUNNER_ATTESTATION_MODE: 'aws-sts',
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: key?.accessKeyId ?? '',
      AWS_SECRET_ACCESS_KEY: key?.secretAccessKey ?? '',
      AWS_SESSION_TOKEN: key?.sessionToken ?? '',
    })
    await runner.line(isReady)
    expect(runner.lines.find(({ message }) => message === 'enrolled')).toMatchObject({ tenant: 'acme', runnerId: null })
    for (const secret of [key?.accessKeyId, key?.secretAccessKey, 'AWS4-HMAC']) {
      expect(runner.text.join('\n')).not.toContain(secret)
    }
  })

  test('as a library it gives identity, secure context and events', async () => {
    const runner = new Runner({ env: { ...overTls(), RUNNER_BOOTSTRAP_TOKEN: await mint() } })
    const events: string[] = []
    runner.on('ready', () => events.push('ready'))
    expect(runner.identity).toBeNull()
    expect(() => runner.secureContext).toThrow('no live certificate')
    await runner.start()
    expect(runner.identity).toMatchObject({
      tenant: 'acme',
      spiffeId: 'spiffe://rootpilot/tenant/acme/runner',
      runnerId: null,
    })
    expect(events).toEqual(['ready'])
    await runner.stop()
    expect(await runner.ended()).toBe(0)
  })
})

const listening: Server[] = []
afterAll(() => {
  for (const server of listening) server.close()
})

/** Takes connections and never says a word; the second waits until it has so many. */
async function silent(): Promise<[url: string, connected: (count: number) => Promise<void>]> {
  let count = 0
  const server = createTcpServer((socket) => {
    count += 1
    socket.on('error', () => {})
  })
  listening.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const connected = async (wanted: number) => {
    while (count < wanted) await sleep(20)
  }
  return [`http://127.0.0.1:${(server.address() as AddressInfo).port}`, connected]
}

describe('against a fake control plane with scripted answers', () => {
  let plane: FakeControlPlane
  beforeAll(async () => {
    plane = await FakeControlPlane.start()
  })
  afterAll(() => plane.stop())
  afterEach(() => {
    plane.next.length = 0
    plane.respond = () => undefined
    plane.issuing.lifetime = 900
  })
  const env = (more: Readonly<Record<string, string>> = {}) => ({
    RUNNER_ENROLL_URL: plane.url,
    RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t',
    ...more,
  })

  test('a SIGTERM in flight waits for the answer and keeps it (sigterm-in-flight)', async () => {
    const folder = scratch()
    const asked = Promise.withResolvers<void>()
    plane.next.push((request, response) => {
      asked.resolve()
      void sleep(700).then(async () => response.end(JSON.stringify(await plane.issue(request))))
      return 'taken'
    })
    const runner = run(env({ RUNNER_IDENTITY_DIR: folder }))
    await asked.promise
    expect(existsSync(join(folder, 'enrollment.json'))).toBe(true)
    runner.child.kill('SIGTERM')
    expect(await runner.exited).toBe(0)
    expect(JSON.parse(readFileSync(join(folder, 'identity.json'), 'utf8')).certificate).toContain('BEGIN CERTIFICATE')
  })

  test('a SIGTERM while a server hangs ends it, and a second at once (sighup-twice)', async () => {
    const sent = async (count: number) => {
      while (plane.enrolls.length < count) await sleep(20)
    }
    plane.requests.length = 0
    plane.respond = () => 'taken'
    const runner = run(env())
    await sent(1)
    runner.child.kill('SIGTERM')
    expect(await runner.exited).toBe(0)
    const other = run(env())
    await sent(2)
    other.child.kill('SIGTERM')
    await sleep(100)
    other.child.kill('SIGTERM')
    expect(await other.exited).toBe(143)
  })

  test('an invalid proxy URL ends it with 78, and its password is not logged', async () => {
    const runner = run({ ...env(), all_proxy: 'socks5://user:hush@proxy.test:1080' })
    expect(await runner.exited).toBe(78)
    expect(runner.lines.at(-1)?.message).toContain('all_proxy is not the URL of an HTTP proxy')
    expect(runner.text.join('\n')).not.toContain('hush')
  })

  test('the metadata endpoint of the machine is asked directly, even where Node itself is set to use a proxy', async () => {
    const asked: string[] = []
    const server = createHttpServer((request, response) => {
      asked.push(request.url ?? '')
      const expiration = '2099-01-01T00:00:00Z'
      const credentials = { AccessKeyId: 'A', SecretAccessKey: 's', Token: 't', Expiration: expiration }
      response.end(request.url?.endsWith('/runner') ? JSON.stringify(credentials) : 'runner')
    })
    listening.push(server)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const [proxy] = await silent()
    const enrolled = Promise.withResolvers<void>()
    plane.respond = () => {
      enrolled.resolve()
      return undefined
    }
    run({
      ...{ RUNNER_ENROLL_URL: plane.url, RUNNER_ATTESTATION_MODE: 'aws-sts', AWS_REGION: 'us-east-1' },
      ...{ AWS_CONFIG_FILE: '/nonexistent', AWS_SHARED_CREDENTIALS_FILE: '/nonexistent', HOME: scratch() },
      AWS_EC2_METADATA_SERVICE_ENDPOINT: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      ...{ NODE_USE_ENV_PROXY: '1', HTTP_PROXY: proxy, HTTPS_PROXY: proxy },
    })
    await enrolled.promise
    expect(asked).toContain('/latest/meta-data/iam/security-credentials/runner')
  })

  test('a SIGTERM while credentials or a proxy are waited for ends it', async () => {
    const [endpoint, connected] = await silent()
    const folder = scratch()
    const [profile, program, pid] = [join(folder, 'config'), join(folder, 'wait.sh'), join(folder, 'pid')]
    writeFileSync(program, `echo $$ >${pid}; exec sleep 600\n`)
    writeFileSync(profile, `[default]\ncredential_process = sh ${program}\n`)
    closeInTheEnd(() => process.kill(Number(readFileSync(pid, 'utf8'))))
    const aws = { RUNNER_ENROLL_URL: plane.url, RUNNER_ATTESTATION_MODE: 'aws-sts', AWS_REGION: 'us-east-1' }
    const far = { RUNNER_ENROLL_URL: 'https://muster.test', RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t' }
    const waiting = [
      run({ ...aws, AWS_CONTAINER_CREDENTIALS_FULL_URI: endpoint, AWS_EC2_METADATA_DISABLED: 'true' }),
      run({ ...aws, AWS_CONFIG_FILE: profile, AWS_EC2_METADATA_DISABLED: 'true' }),
      run({ ...far, HTTPS_PROXY: endpoint }),
    ]
    await Promise.all(waiting.map((runner) => runner.line(({ state }) => state === 'enroll')))
    await connected(2)
    while (!existsSync(pid)) await sleep(20)
    for (const { child } of waiting) child.kill('SIGTERM')
    expect(await Promise.all(waiting.map(({ exited }) => exited))).toEqual([0, 0, 0])
    for (const { lines } of waiting) expect(lines.at(-1)?.message).toBe('stopped')
  })

  test('a SIGTERM while a token file is waited for ends it at once', async () => {
    const runner = run({ RUNNER_ENROLL_URL: plane.url, RUNNER_TOKEN_FILE: '/nonexistent/token' })
    await runner.line(({ state }) => state === 'config')
    runner.child.kill('SIGTERM')
    expect(await runner.exited).toBe(0)
    expect(runner.lines.at(-1)?.message).toBe('stopped')
  })

  test('a folder where no identity has room is found before a token is spent, and its path named', async () => {
    const folder = scratch()
    // In blocks of 512 or 1024 bytes: less than an identity. Node gets EFBIG instead of the signal.
    const runner = run(env({ RUNNER_IDENTITY_DIR: folder }), [], 'ulimit -f 2')
    await runner.line(isReady)
    const at = runner.lines.findIndex(({ message }) => message.startsWith('could not persist identity'))
    expect(runner.lines[at]?.cause).toMatch(new RegExp(`^EFBIG.*${folder}`))
    expect(at).toBeLessThan(runner.lines.findIndex(({ state }) => state === 'enroll'))
    expect(readdirSync(folder)).not.toContain('identity.json')
  })

  test('a SIGTERM while it backs off ends it at once (sigterm-in-backoff)', async () => {
    plane.respond = () => ({ status: 503, headers: { 'retry-after': '300' }, body: '' })
    const runner = run(env())
    await runner.line(({ level }) => level === 'warn')
    runner.child.kill('SIGTERM')
    expect(await runner.exited).toBe(0)
  })

  test('a certificate of five seconds is renewed while it lives, and the tunnel follows it', async () => {
    plane.issuing.lifetime = 5
    const runner = new Runner({ env: env() })
    const renewed = Promise.withResolvers<void>()
    runner.on('renewed', () => renewed.resolve())
    await runner.start()
    const first = runner.secureContext
    await renewed.promise
    expect(runner.secureContext).not.toBe(first)
    expect(runner.secureContext).toBe(runner.secureContext)
    await runner.stop()
  })

  test('two services meet over mTLS with the contexts of their runners', async () => {
    const [server, client] = [new Runner({ env: env() }), new Runner({ env: env() })]
    await server.start()
    await client.start()
    const listener = createServer({
      SNICallback: (_name, give) => give(null, server.secureContext),
      requestCert: true,
      rejectUnauthorized: true,
    })
    // A server asks for client certificates with the context that it was made with.
    listener.setSecureContext({
      cert: server.identity?.certificate ?? '',
      key: server.identity?.privateKey ?? '',
      ca: server.identity?.trustBundle ?? '',
    })
    const met = new Promise<TLSSocket>((resolve) => listener.on('secureConnection', resolve))
    await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve))
    const address = listener.address()
    const port = typeof address === 'object' && address !== null ? address.port : 0
    const socket = connect({
      ...{ port, host: '127.0.0.1', servername: 'runner.test', secureContext: client.secureContext },
      // A SPIFFE ID is no host name: the caller compares it.
      checkServerIdentity: () => undefined,
    })
    const peer = await met
    expect(peer.authorized).toBe(true)
    expect(peer.getPeerX509Certificate()?.subjectAltName).toBe(`URI:${client.identity?.spiffeId}`)
    socket.destroy()
    listener.close()
    await Promise.all([server.stop(), client.stop()])
  })

  test('an end before it is ready rejects the start, one after it is an event', async () => {
    const wrong = new Runner({ env: { RUNNER_ENROLL_URL: plane.url } })
    await expect(wrong.start()).rejects.toMatchObject({ name: 'RunnerError', exitCode: 78 })
    const runner = new Runner({ env: env() })
    const lost = new Promise<RunnerError>((resolve) => runner.on('lost', resolve))
    await runner.start()
    plane.respond = () => ({ status: 403, body: JSON.stringify({ code: 'banned', detail: 'd', requestId: 'r' }) })
    plane.sockets.at(-1)?.close(4003)
    const error = await lost
    expect(error).toBeInstanceOf(RunnerError)
    expect(error.exitCode).toBe(77)
    expect(runner.identity === null || plane.sockets.at(-1)?.readyState === 3).toBe(true)
  })

  test('wrong arguments are a mistake of configuration, help is not', async () => {
    const wrong = run({ RUNNER_ENROLL_URL: 'http://muster.test' }, ['--bogus'])
    expect(await wrong.exited).toBe(78)
    expect(wrong.lines.filter(({ level }) => level === 'error').map(({ message }) => message)).toEqual([
      "Unknown option '--bogus'",
      'RUNNER_ENROLL_URL must begin with https://: plain http is for this machine only',
      'RUNNER_ATTESTATION_MODE=bootstrap-token requires RUNNER_BOOTSTRAP_TOKEN',
    ])
    const help = spawnNode(MAIN, ['runner', '--help'], { stderr: 'inherit' })
    let text = ''
    for await (const chunk of help.stdout ?? []) text += chunk
    for (const word of ['RUNNER_ENROLL_URL', 'RUNNER_CA_PEM', '--mount', '78', 'RUNNER_ENROLL_URL=https']) {
      expect(text).toContain(word)
    }
  })
})
