// Tests how a runner gathers `aws-sts` evidence: from each source of AWS credentials, behind proxies, and on failure.
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Network } from '../../../src/node/http-client.ts'
import { epochMilliseconds } from '../../../src/protocol/time.ts'
import { Settings } from '../../../src/runner/environment/settings.ts'
import { type AwsEvidence, awsSts, signAwsEvidence } from '../../../src/runner/evidence/aws-sts.ts'
import type { EvidenceSource } from '../../../src/runner/evidence/evidence.ts'
import { directly, ForwardProxy, rulesOf, selfSigned } from '../../fakes/forward-proxy.ts'
import { type FakeKey, fakeSts } from '../../fakes/sts.ts'

const SRC = fileURLToPath(new URL('../../../src/', import.meta.url))
const now = epochMilliseconds(Date.UTC(2026, 2, 1, 12))
const nonce = 'N'.repeat(64)

/** As the configuration makes it, once for a runner. */
function newSource(region = 'sa-east-1'): EvidenceSource {
  const source = awsSts.read(new Settings({ AWS_REGION: region }), { fileFlag: null, log: () => {} })
  if (!source.ok) throw new Error(source.error ?? 'a mistake')
  return source.value
}

async function gather(network = directly, source = newSource()): Promise<AwsEvidence> {
  const evidence = await source.gather(nonce, now, network)
  if (!evidence.ok) throw new Error(evidence.error)
  return evidence.value.attestation as unknown as AwsEvidence
}

/** What a refusal of this evidence would be logged with. */
async function described(network = directly) {
  const evidence = await newSource().gather(nonce, now, network)
  return evidence.ok ? evidence.value.described : evidence.error
}

const identity = { arn: 'arn:aws:sts::111122223333:assumed-role/runner/s1', userId: 'AROAEXAMPLE:s1' }
const key: FakeKey = {
  accessKeyId: 'ASIAEXAMPLE1',
  secretAccessKey: 'se+cret/1',
  sessionToken: 'to+ken/1==',
  ...identity,
}

/** Whether AWS would say who signed this, and with which key it was signed. */
async function verify({ region, headers, body }: AwsEvidence, ...keys: FakeKey[]): Promise<string> {
  const answer = await fakeSts(() => now, keys).answer({
    method: 'POST',
    target: '/',
    headers: Object.entries(headers),
    body,
  })
  expect(answer).toMatchObject({ status: 200, body: expect.stringContaining(identity.arn) })
  expect(headers.host).toBe(`sts.${region}.amazonaws.com`)
  return /Credential=([^/]*)/.exec(headers.authorization ?? '')?.[1] ?? ''
}

let folder = ''
const closing: (() => void)[] = []

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'muster-aws-'))
  // What the machine of whoever runs the tests has, is not there.
  for (const name of Object.keys(process.env)) if (name.startsWith('AWS_')) vi.stubEnv(name, undefined)
  vi.stubEnv('AWS_CONFIG_FILE', join(folder, 'config'))
  vi.stubEnv('AWS_SHARED_CREDENTIALS_FILE', join(folder, 'credentials'))
  vi.stubEnv('AWS_EC2_METADATA_DISABLED', 'true')
})

afterEach(() => {
  vi.unstubAllEnvs()
  for (const close of closing.splice(0)) close()
  rmSync(folder, { recursive: true, force: true })
})

/** A server on loopback; its origin. */
async function serve(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> {
  const server = createServer(answer)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closing.push(() => {
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** The n-th credentials of an endpoint, as ECS, EKS Pod Identity and IMDS write them. */
const issued = (n: number): FakeKey => ({
  accessKeyId: `ASIAISSUED${n}`,
  secretAccessKey: `secret ${n}`,
  sessionToken: `token ${n}`,
  ...identity,
})
const written = ({ accessKeyId, secretAccessKey, sessionToken }: FakeKey): string =>
  JSON.stringify({
    AccessKeyId: accessKeyId,
    SecretAccessKey: secretAccessKey,
    Token: sessionToken,
    Expiration: new Date(Date.now() + 3_600_000).toISOString(),
  })

test('credentials of the environment sign the nonce, the session token and the content type', async () => {
  vi.stubEnv('AWS_ACCESS_KEY_ID', key.accessKeyId)
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', key.secretAccessKey)
  vi.stubEnv('AWS_SESSION_TOKEN', key.sessionToken)
  vi.stubEnv('AWS_DEFAULT_REGION', 'eu-west-1')
  const evidence = await gather()
  expect(await verify(evidence, key)).toBe(key.accessKeyId)
  expect(evidence).toEqual({
    mode: 'aws-sts',
    region: 'sa-east-1',
    body: 'Action=GetCallerIdentity&Version=2011-06-15',
    headers: {
      host: 'sts.sa-east-1.amazonaws.com',
      'content-type': 'application/x-www-form-urlencoded; charset=utf-8',
      'x-amz-date': '20260301T120000Z',
      'x-amz-security-token': key.sessionToken,
      'x-muster-nonce': nonce,
      authorization: expect.stringMatching(
        /\/20260301\/sa-east-1\/sts\/aws4_request, SignedHeaders=content-type;host;x-amz-date;x-amz-security-token;x-muster-nonce, /,
      ),
    },
  })
})

test('a long-term key sends no session token', async () => {
  const { sessionToken: _, ...longTermKey } = key
  const evidence = await signAwsEvidence({ region: 'sa-east-1', nonce, now, credentials: longTermKey })
  if (!evidence.ok) throw new Error(evidence.error)
  expect(evidence.value.headers).not.toHaveProperty('x-amz-security-token')
  await verify(evidence.value, longTermKey)
})

test('IMDSv2 is reached, and a later enrollment signs with refreshed credentials', async () => {
  let n = 0
  const origin = await serve((request, response) => {
    if (request.method === 'PUT' && request.url === '/latest/api/token') return response.end('imds session')
    if (request.headers['x-aws-ec2-metadata-token'] !== 'imds session') return response.writeHead(401).end()
    const path = '/latest/meta-data/iam/security-credentials/'
    if (request.url === path) return response.end('runner')
    return request.url === `${path}runner` ? response.end(written(issued(++n))) : response.writeHead(404).end()
  })
  vi.stubEnv('AWS_EC2_METADATA_DISABLED', undefined)
  vi.stubEnv('AWS_EC2_METADATA_SERVICE_ENDPOINT', origin)
  expect(await verify(await gather(), issued(1), issued(2))).toBe('ASIAISSUED1')
  expect(await verify(await gather(), issued(1), issued(2))).toBe('ASIAISSUED2')
})

test('the container endpoint is reached with its token read anew, as EKS Pod Identity rotates it', async () => {
  const tokenFile = join(folder, 'token')
  const seen: (string | undefined)[] = []
  const origin = await serve((request, response) => {
    seen.push(request.headers.authorization)
    response.end(written(issued(seen.length)))
  })
  vi.stubEnv('AWS_CONTAINER_CREDENTIALS_FULL_URI', `${origin}/v1/credentials`)
  vi.stubEnv('AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE', tokenFile)
  writeFileSync(tokenFile, 'first')
  expect(await verify(await gather(), issued(1), issued(2))).toBe('ASIAISSUED1')
  writeFileSync(tokenFile, 'second')
  expect(await verify(await gather(), issued(1), issued(2))).toBe('ASIAISSUED2')
  expect(seen).toEqual(['first', 'second'])
})

test('a profile is read anew, as a rotation of its keys replaces it', async () => {
  for (const n of [1, 2]) {
    const { accessKeyId, secretAccessKey, sessionToken } = issued(n)
    const keys = `aws_access_key_id=${accessKeyId}\naws_secret_access_key=${secretAccessKey}\naws_session_token=${sessionToken}`
    writeFileSync(join(folder, 'credentials'), `[default]\n${keys}\n`)
    expect(await verify(await gather(), issued(n))).toBe(accessKeyId)
  }
})

/** What STS answers to a call that assumes a role. */
const assumed = (action: string, { accessKeyId, secretAccessKey, sessionToken }: FakeKey): string =>
  `<${action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><${action}Result><Credentials>
  <AccessKeyId>${accessKeyId}</AccessKeyId><SecretAccessKey>${secretAccessKey}</SecretAccessKey>
  <SessionToken>${sessionToken}</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration>
  </Credentials></${action}Result></${action}Response>`

test('web identity is reached, as IRSA sets it up, and asks STS of the region of the evidence', async () => {
  const asked: string[] = []
  const origin = await serve(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    asked.push(Buffer.concat(chunks).toString())
    response.setHeader('content-type', 'text/xml')
    response.end(assumed('AssumeRoleWithWebIdentity', issued(asked.length)))
  })
  const tokenFile = join(folder, 'token')
  vi.stubEnv('AWS_WEB_IDENTITY_TOKEN_FILE', tokenFile)
  vi.stubEnv('AWS_ROLE_ARN', 'arn:aws:iam::111122223333:role/runner')
  vi.stubEnv('AWS_ENDPOINT_URL_STS', origin)
  writeFileSync(tokenFile, 'a.b.c')
  expect(await verify(await gather(), issued(1))).toBe('ASIAISSUED1')
  writeFileSync(tokenFile, 'd.e.f')
  expect(await verify(await gather(), issued(2))).toBe('ASIAISSUED2')
  expect(asked).toEqual([expect.stringContaining('WebIdentityToken=a.b.c'), expect.stringContaining('=d.e.f')])
})

async function failure(network = directly, source = newSource()): Promise<string> {
  const evidence = await source.gather(nonce, now, network)
  return evidence.ok ? 'there were credentials' : evidence.error
}

/** What the chain says when the `limit` of a link is over, as soon as it `waits` for somebody. */
async function failureInTheEnd(waits: Promise<void>, limit: number, network = directly, source = newSource()) {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  try {
    const failed = failure(network, source)
    await waits
    await vi.advanceTimersByTimeAsync(limit)
    return await failed
  } finally {
    vi.useRealTimers()
  }
}

const NONE_SET =
  'no AWS credentials: environment: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not both set; ' +
  'profile: Could not resolve credentials using profile: [default] in configuration/credentials file(s).; ' +
  'web identity: AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN are not both set; container: '
const NO_CONTAINER =
  'AWS_CONTAINER_CREDENTIALS_RELATIVE_URI and AWS_CONTAINER_CREDENTIALS_FULL_URI are not set; instance metadata: '

describe('every link that was tried is named with its own cause', () => {
  test('on a machine whose metadata endpoint never answers', async () => {
    // Accepts the connection, as a network that drops packets to 169.254.169.254 looks.
    const origin = await serve(() => undefined)
    vi.stubEnv('AWS_EC2_METADATA_DISABLED', undefined)
    vi.stubEnv('AWS_EC2_METADATA_SERVICE_ENDPOINT', origin)
    expect(await failure()).toBe(`${NONE_SET}${NO_CONTAINER}TimeoutError from instance metadata service`)
  })

  test('on a machine whose metadata endpoint is away', async () => {
    vi.stubEnv('AWS_EC2_METADATA_DISABLED', undefined)
    vi.stubEnv('AWS_EC2_METADATA_SERVICE_ENDPOINT', 'http://127.0.0.1:9')
    expect(await failure()).toBe(
      `${NONE_SET}${NO_CONTAINER}Unable to connect to instance metadata service (ECONNREFUSED)`,
    )
  })

  test('on a machine that is told not to ask the metadata endpoint', async () => {
    expect(await failure()).toBe(`${NONE_SET}${NO_CONTAINER}AWS_EC2_METADATA_DISABLED is set`)
  })

  test.each<[string, (origin: string) => string, string]>([
    ['answers 404', (origin) => `${origin}/404`, 'HOST answers HTTP 404'],
    ['answers 500', (origin) => `${origin}/500`, 'HOST answers HTTP 500'],
    ['redirects', (origin) => `${origin}/302`, 'HOST answers HTTP 302'],
    ['answers something else', (origin) => `${origin}/200`, 'what HOST answers is no credentials'],
    ['answers no end', (origin) => `${origin}/endless`, 'HOST: the answer is over 64 KiB'],
    ['hangs up', (origin) => `${origin}/hangup`, 'HOST: socket hang up'],
    ['is away', () => 'http://127.0.0.1:9/x', '127.0.0.1:9: connect ECONNREFUSED 127.0.0.1:9'],
    ['is another machine by plain http', () => 'http://10.0.0.1/x', 'is plain http to another machine'],
    ['is no URL', () => 'nowhere', 'is not a URL'],
    ['is a file', () => 'file:///etc/passwd', 'is not a URL'],
  ])('in a container whose endpoint %s', async (_name, uri, cause) => {
    const origin = await serve((request, response) => {
      if (request.url === '/hangup') return request.socket.destroy()
      if (request.url === '/endless') return response.end('x'.repeat(70_000))
      const status = Number(request.url?.slice(1))
      return response.writeHead(status, { location: '/200' }).end('{"AccessKeyId":"ASIA","SecretAccessKey":"hush')
    })
    vi.stubEnv('AWS_CONTAINER_CREDENTIALS_FULL_URI', uri(origin))
    const message = await failure()
    expect(message.startsWith(`${NONE_SET}AWS_CONTAINER_CREDENTIALS_FULL_URI`)).toBe(true)
    expect(message).toContain(cause.replace('HOST', new URL(origin).host))
    // Its host's role is not its own.
    expect(message).not.toContain('instance metadata')
    expect(message).not.toContain('hush')
  })

  test('in a container whose endpoint never answers', async () => {
    vi.stubEnv('AWS_CONTAINER_CREDENTIALS_FULL_URI', `${await serve(() => {})}/v1/credentials`)
    expect(await failure()).toContain('container: AWS_CONTAINER_CREDENTIALS_FULL_URI: no answer within 5 s')
  })

  test('in a container whose authorization token cannot be read', async () => {
    vi.stubEnv('AWS_CONTAINER_CREDENTIALS_FULL_URI', 'http://127.0.0.1:9/x')
    vi.stubEnv('AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE', join(folder, 'absent'))
    expect(await failure()).toContain(`AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE cannot be read: ENOENT`)
  })
})

describe('a link that throws does not end the chain', () => {
  async function container(): Promise<void> {
    const origin = await serve((_, response) => response.end(written(issued(1))))
    vi.stubEnv('AWS_CONTAINER_CREDENTIALS_FULL_URI', `${origin}/v1/credentials`)
  }

  test('nor does a profile file that is a folder, or a token file that is not there', async () => {
    await container()
    mkdirSync(join(folder, 'config'))
    vi.stubEnv('AWS_WEB_IDENTITY_TOKEN_FILE', join(folder, 'absent'))
    vi.stubEnv('AWS_ROLE_ARN', 'arn:aws:iam::111122223333:role/runner')
    expect(await verify(await gather(), issued(1))).toBe('ASIAISSUED1')
    vi.stubEnv('AWS_CONTAINER_CREDENTIALS_FULL_URI', undefined)
    expect(await failure()).toContain(`web identity: ENOENT: no such file or directory, open '${folder}/absent'`)
  })

  test('nor does a profile that is not there, or whose program fails', async () => {
    await container()
    vi.stubEnv('AWS_PROFILE', 'other')
    expect(await verify(await gather(), issued(1))).toBe('ASIAISSUED1')
    vi.stubEnv('AWS_PROFILE', undefined)
    writeFileSync(join(folder, 'config'), '[default]\ncredential_process = sh -c "echo hush >&2; exit 1"\n')
    expect(await verify(await gather(), issued(1))).toBe('ASIAISSUED1')
    vi.stubEnv('AWS_CONTAINER_CREDENTIALS_FULL_URI', undefined)
    expect(await failure()).toContain('profile: its credential_process failed')
    expect(await failure()).not.toContain('hush')
    writeFileSync(join(folder, 'config'), '[default]\ncredential_process = echo hush\n')
    expect(await failure()).toContain('profile: Profile default credential_process returned invalid JSON.')
    expect(await failure()).not.toContain('hush')
  })

  test.runIf(process.getuid?.() === 0)('nor does a user without an entry in passwd and without HOME', async () => {
    const origin = await serve((_, response) => response.end(written(issued(1))))
    const script = `
      process.setuid(54321)
      const { awsSts } = await import(${JSON.stringify(`${SRC}runner/evidence/aws-sts.ts`)})
      const { Settings } = await import(${JSON.stringify(`${SRC}runner/environment/settings.ts`)})
      const network = { rules: { proxy: null, except: [] }, extraRoots: () => null, rootsVariable: '' }
      const given = { fileFlag: null, log: () => {} }
      const gathered = await awsSts.read(new Settings({ AWS_REGION: 'sa-east-1' }), given).value.gather('n', Date.now(), network)
      console.log(JSON.stringify(gathered))`
    const env = { AWS_CONTAINER_CREDENTIALS_FULL_URI: `${origin}/v1`, PATH: process.env.PATH }
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script], { env })
    expect(JSON.parse(stdout)).toMatchObject({ ok: true, value: { described: { credentials: 'container' } } })
  })
})

test('a link that asked AWS in vain ends the chain: another identity is not used in its place', async () => {
  const origin = await serve((_, response) =>
    response
      .writeHead(403, { 'content-type': 'text/xml' })
      .end('<ErrorResponse><Error><Code>AccessDenied</Code><Message>Not authorized</Message></Error></ErrorResponse>'),
  )
  const metadata: string[] = []
  vi.stubEnv('AWS_EC2_METADATA_DISABLED', undefined)
  vi.stubEnv(
    'AWS_EC2_METADATA_SERVICE_ENDPOINT',
    await serve((request, response) => {
      metadata.push(request.url ?? '')
      response.end('x')
    }),
  )
  writeFileSync(join(folder, 'token'), 'a.b.c')
  vi.stubEnv('AWS_WEB_IDENTITY_TOKEN_FILE', join(folder, 'token'))
  vi.stubEnv('AWS_ROLE_ARN', 'arn:aws:iam::111122223333:role/runner')
  vi.stubEnv('AWS_ENDPOINT_URL_STS', origin)
  expect(await failure()).toMatch(/; web identity: Not authorized$/)
  expect(metadata).toEqual([])
})

describe('a credential_process', () => {
  /** Prints credentials as soon as `release` is called; `starts` counts its runs. */
  function slowProcess() {
    const [go, runs] = [join(folder, 'go'), join(folder, 'runs')]
    const { accessKeyId, secretAccessKey, sessionToken } = issued(1)
    const printed = {
      ...{ Version: 1, AccessKeyId: accessKeyId, SecretAccessKey: secretAccessKey, SessionToken: sessionToken },
      Expiration: '2099-01-01T00:00:00Z',
    }
    writeFileSync(join(folder, 'printed'), JSON.stringify(printed))
    const program = join(folder, 'program.sh')
    writeFileSync(program, `echo run >>${runs}\nwhile [ ! -e ${go} ]; do sleep 0.02; done\ncat ${folder}/printed\n`)
    writeFileSync(join(folder, 'config'), `[default]\ncredential_process = sh ${program}\n`)
    const started = async () => {
      while (!existsSync(runs)) await sleep(10)
    }
    return {
      started: started(),
      starts: () => readFileSync(runs, 'utf8').split('\n').length - 1,
      release: () => writeFileSync(go, ''),
    }
  }

  test('has a minute', async () => {
    const { started, release } = slowProcess()
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    try {
      const gathered = gather()
      await started
      await vi.advanceTimersByTimeAsync(59_000)
      release()
      expect(await verify(await gathered, issued(1))).toBe('ASIAISSUED1')
    } finally {
      release()
      vi.useRealTimers()
    }
  })

  test('that takes longer is not started a second time, and its late result is used', async () => {
    const { started, starts, release } = slowProcess()
    const source = newSource()
    try {
      expect(await failureInTheEnd(started, 60_000, directly, source)).toMatch(/; profile: no answer within 60 s$/)
      expect(await failureInTheEnd(Promise.resolve(), 60_000, directly, source)).toContain('no answer within 60 s')
    } finally {
      release()
    }
    expect(await verify(await gather(directly, source), issued(1))).toBe('ASIAISSUED1')
    expect(starts()).toBe(1)
    // What was used is used once: the next enrollment asks anew.
    await gather(directly, source)
    expect(starts()).toBe(2)
  })
})

describe('the log of a refusal names what was shown, as far as it is known', () => {
  test('of a web identity: account and role', async () => {
    const origin = await serve((_, response) => {
      response.setHeader('content-type', 'text/xml')
      response.end(assumed('AssumeRoleWithWebIdentity', issued(1)))
    })
    writeFileSync(join(folder, 'token'), 'a.b.c')
    vi.stubEnv('AWS_WEB_IDENTITY_TOKEN_FILE', join(folder, 'token'))
    vi.stubEnv('AWS_ROLE_ARN', 'arn:aws:iam::111122223333:role/ci/runner')
    vi.stubEnv('AWS_ENDPOINT_URL_STS', origin)
    expect(await described()).toEqual({
      ...{ region: 'sa-east-1', credentials: 'web identity', account: '111122223333', role: 'runner' },
    })
  })

  test('of a container and of the environment: the account where the source tells it', async () => {
    const answer = JSON.stringify({ ...JSON.parse(written(issued(1))), AccountId: '111122223333' })
    vi.stubEnv('AWS_CONTAINER_CREDENTIALS_FULL_URI', `${await serve((_, response) => response.end(answer))}/v1`)
    expect(await described()).toEqual({ region: 'sa-east-1', credentials: 'container', account: '111122223333' })
    vi.stubEnv('AWS_ACCESS_KEY_ID', key.accessKeyId)
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', key.secretAccessKey)
    expect(await described()).toEqual({ region: 'sa-east-1', credentials: 'environment' })
    vi.stubEnv('AWS_ACCOUNT_ID', '444455556666')
    expect(await described()).toMatchObject({ account: '444455556666' })
  })
})

test('the error of an expired SSO session quotes AWS', async () => {
  writeFileSync(
    join(folder, 'config'),
    '[default]\nsso_account_id = 111122223333\nsso_role_name = Dev\nsso_region = us-east-1\nsso_start_url = https://example.awsapps.com/start\n',
  )
  vi.stubEnv('HOME', folder)
  expect(await failure()).toContain('aws sso login')
})

test('credentials with a line end in them are not quoted', async () => {
  const broken = { ...key, sessionToken: 'hush\nhush' }
  const evidence = await signAwsEvidence({ region: 'sa-east-1', nonce, now, credentials: broken })
  expect(evidence).toEqual({
    ok: false,
    error: 'the AWS credentials hold a character that no header can carry: look for a line end',
  })
})

describe('behind a proxy', () => {
  const ROLE = 'arn:aws:iam::111122223333:role/runner'
  let proxy: ForwardProxy
  let network: Network
  /** What each host behind the proxy was asked. */
  const asked: string[] = []

  /** AWS as it is in the region of the evidence and the one of SSO, and a proxy that alone leads there. */
  beforeEach(async () => {
    asked.length = 0
    const hosts = ['sts.sa-east-1.amazonaws.com', 'portal.sso.us-east-1.amazonaws.com', 'oidc.us-east-1.amazonaws.com']
    const tls = await selfSigned(...hosts.map((value) => ({ type: 'dns', value }) as const))
    const aws = createTlsServer(tls, async (request, response) => {
      let body = ''
      for await (const chunk of request) body += chunk
      const action = /Action=(\w+)/.exec(body)?.[1] ?? request.url?.split('?')[0] ?? ''
      asked.push(`${request.headers.host} ${action}`)
      response.setHeader('content-type', body.startsWith('Action=') ? 'text/xml' : 'application/json')
      if (body.startsWith('Action=')) response.end(assumed(action, issued(1)))
      else if (action === '/token') response.end('{"accessToken":"fresh","expiresIn":3600,"tokenType":"Bearer"}')
      else response.end(JSON.stringify({ roleCredentials: { ...issued(1), expiration: Date.UTC(2099, 0, 1) } }))
    })
    await new Promise<void>((resolve) => aws.listen(0, '127.0.0.1', resolve))
    proxy = await ForwardProxy.start((aws.address() as AddressInfo).port)
    closing.push(() => {
      proxy.close()
      aws.close()
      aws.closeAllConnections()
    })
    network = { ...directly, rules: through(`http://u:hush@127.0.0.1:${proxy.port}`), extraRoots: () => tls.cert }
  })

  const through = (HTTPS_PROXY: string) => rulesOf({ HTTPS_PROXY })

  function webIdentity(): void {
    writeFileSync(join(folder, 'token'), 'a.b.c')
    vi.stubEnv('AWS_WEB_IDENTITY_TOKEN_FILE', join(folder, 'token'))
    vi.stubEnv('AWS_ROLE_ARN', ROLE)
  }

  /** A session of `aws sso login`, which `expires` at a time. */
  function ssoSession(expires: number): void {
    const cache = join(folder, '.aws/sso/cache')
    mkdirSync(cache, { recursive: true })
    const session = {
      ...{ accessToken: 'stale', expiresAt: new Date(expires).toISOString(), refreshToken: 'again' },
      ...{ clientId: 'id', clientSecret: 'secret', registrationExpiresAt: '2099-01-01T00:00:00Z' },
      ...{ startUrl: 'https://example.awsapps.com/start', region: 'us-east-1' },
    }
    writeFileSync(join(cache, `${createHash('sha1').update('work').digest('hex')}.json`), JSON.stringify(session))
    writeFileSync(
      join(folder, 'config'),
      `[default]\nsso_session = work\nsso_account_id = 111122223333\nsso_role_name = Dev\n[sso-session work]\nsso_region = us-east-1\nsso_start_url = ${session.startUrl}\n`,
    )
    vi.stubEnv('HOME', folder)
  }

  test('web identity asks STS through it', async () => {
    webIdentity()
    expect(await verify(await gather(network), issued(1))).toBe('ASIAISSUED1')
    expect(proxy.asked).toEqual(['sts.sa-east-1.amazonaws.com:443 u:hush'])
    expect(asked).toEqual(['sts.sa-east-1.amazonaws.com AssumeRoleWithWebIdentity'])
  })

  test('a profile that assumes a role asks STS through it', async () => {
    writeFileSync(join(folder, 'credentials'), '[base]\naws_access_key_id = AKIA1\naws_secret_access_key = s\n')
    writeFileSync(join(folder, 'config'), `[default]\nrole_arn = ${ROLE}\nsource_profile = base\n`)
    expect(await verify(await gather(network), issued(1))).toBe('ASIAISSUED1')
    expect(proxy.asked).toEqual(['sts.sa-east-1.amazonaws.com:443 u:hush'])
    expect(asked).toEqual(['sts.sa-east-1.amazonaws.com AssumeRole'])
  })

  test('SSO asks for its token and its credentials through it, in its own region', async () => {
    ssoSession(Date.now() - 1000)
    expect(await verify(await gather(network), issued(1))).toBe('ASIAISSUED1')
    expect(asked).toEqual([
      'oidc.us-east-1.amazonaws.com /token',
      'portal.sso.us-east-1.amazonaws.com /federation/credentials',
    ])
    expect(proxy.asked).toHaveLength(2)
  })

  test('the endpoints of the container and of the machine are asked directly', async () => {
    const origin = await serve((_, response) => response.end(written(issued(1))))
    vi.stubEnv('AWS_CONTAINER_CREDENTIALS_FULL_URI', `${origin}/v1/credentials`)
    expect(await verify(await gather(network), issued(1))).toBe('ASIAISSUED1')
    expect(proxy.asked).toEqual([])
  })

  test('a container endpoint that is another machine is asked through it', async () => {
    vi.stubEnv('AWS_CONTAINER_CREDENTIALS_FULL_URI', 'https://sts.sa-east-1.amazonaws.com/v1/credentials')
    expect(await failure(network)).toContain('what sts.sa-east-1.amazonaws.com answers is no credentials')
    expect(proxy.asked).toEqual(['sts.sa-east-1.amazonaws.com:443 u:hush'])
    const refused = { ...network, rules: through('http://u:hush@127.0.0.1:9') }
    expect(await failure(refused)).toContain('the proxy 127.0.0.1:9 (HTTPS_PROXY) cannot be reached')
  })

  test('one that refuses, and one that is away, is named without its password', async () => {
    webIdentity()
    proxy.answer = (socket) => socket.end('HTTP/1.1 407 No\r\n\r\n')
    const refused = await failure(network)
    expect(refused).toMatch(/web identity: the proxy 127\.0\.0\.1:\d+ \(HTTPS_PROXY\) refused CONNECT with 407/)
    const away = await failure({ ...network, rules: through('http://u:hush@127.0.0.1:9') })
    expect(away).toContain('web identity: the proxy 127.0.0.1:9 (HTTPS_PROXY) cannot be reached: connect ECONNREFUSED')
    expect(refused + away).not.toContain('hush')
  })

  test('the error of an untrusted certificate names the variable that adds a CA', async () => {
    webIdentity()
    expect(await failure({ ...network, extraRoots: () => null })).toContain(
      'the certificate of AWS is not from a CA that this machine trusts (DEPTH_ZERO_SELF_SIGNED_CERT): if the CA is yours, set RUNNER_CA_PEM',
    )
  })

  test('one that keeps silent ends with the chain, its connection closed', async () => {
    webIdentity()
    const closed = Promise.withResolvers<void>()
    const asked = Promise.withResolvers<void>()
    proxy.answer = (socket) => {
      socket.resume().on('end', () => closed.resolve())
      asked.resolve()
    }
    expect(await failureInTheEnd(asked.promise, 15_000, network)).toContain('no answer within 15 s')
    await closed.promise
  })
})

test.each(['us-east-1/', 'US-EAST-1', 'a.b'])('a region of another form is refused: %j', (region) => {
  const settings = new Settings({ AWS_REGION: region })
  expect(awsSts.read(settings, { fileFlag: null, log: () => {} }).ok).toBe(false)
  expect(settings.mistakes).toEqual(['AWS_REGION must be the name of a region, such as us-east-1'])
})
