// Tests how a runner gathers `aws-sts` evidence: from each source of AWS credentials, behind proxies, and on failure.
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Network } from '../../../src/node/http-client.ts'
import { epochMilliseconds } from '../../../src/protocol/time.ts'
import { type AwsEvidence, AwsEvidenceError, gatherAwsEvidence } from '../../../src/runner/evidence/aws-sts.ts'
import { directly, ForwardProxy, rulesOf, selfSigned } from '../../fakes/forward-proxy.ts'
import { type FakeKey, fakeSts } from '../../fakes/sts.ts'

const now = epochMilliseconds(Date.UTC(2026, 2, 1, 12))
const nonce = 'N'.repeat(64)
const gather = (network = directly): Promise<AwsEvidence> =>
  gatherAwsEvidence({ region: 'sa-east-1', nonce, now, network })

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
  const evidence = await gatherAwsEvidence({
    region: 'sa-east-1',
    nonce,
    now,
    network: directly,
    credentials: longTermKey,
  })
  expect(evidence.headers).not.toHaveProperty('x-amz-security-token')
  await verify(evidence, longTermKey)
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

async function failure(network = directly): Promise<string> {
  const error = await gather(network).catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(AwsEvidenceError)
  return (error as AwsEvidenceError).message
}

/** What the chain says when its time is over, which it is as soon as it `waits` for somebody. */
async function failureInTheEnd(waits: Promise<void>, network = directly): Promise<string> {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  try {
    const failed = failure(network)
    await waits
    await vi.advanceTimersByTimeAsync(4500)
    return await failed
  } finally {
    vi.useRealTimers()
  }
}

test('a machine without any of it fails before its time is over, and says what was tried', async () => {
  // Accepts the connection and never answers, as a network that drops packets to 169.254.169.254 looks.
  const origin = await serve(() => undefined)
  vi.stubEnv('AWS_EC2_METADATA_DISABLED', undefined)
  vi.stubEnv('AWS_EC2_METADATA_SERVICE_ENDPOINT', origin)
  expect(await failure()).toBe(
    'no AWS credentials: tried environment (AWS_ACCESS_KEY_ID not set), profile and SSO (profile default), ' +
      'web identity (AWS_WEB_IDENTITY_TOKEN_FILE not set), container (AWS_CONTAINER_CREDENTIALS_FULL_URI not set), ' +
      'instance metadata (IMDS); the SDK says: Could not load credentials from any providers',
  )
})

test('a container endpoint that never answers fails in time', async () => {
  const asked = Promise.withResolvers<void>()
  vi.stubEnv('AWS_CONTAINER_CREDENTIALS_FULL_URI', `${await serve(() => asked.resolve())}/v1/credentials`)
  expect(await failureInTheEnd(asked.promise)).toContain(
    'container (AWS_CONTAINER_CREDENTIALS_FULL_URI set); the SDK says: no answer within 4.5 s',
  )
})

test('the error of an expired SSO session quotes AWS', async () => {
  writeFileSync(
    join(folder, 'config'),
    '[default]\nsso_account_id = 111122223333\nsso_role_name = Dev\nsso_region = us-east-1\nsso_start_url = https://example.awsapps.com/start\n',
  )
  vi.stubEnv('HOME', folder)
  expect(await failure()).toContain('aws sso login')
})

test('what an endpoint answers in place of credentials is not quoted', async () => {
  const origin = await serve((_, response) => response.end('{"AccessKeyId":"ASIA","SecretAccessKey":"hush'))
  vi.stubEnv('AWS_CONTAINER_CREDENTIALS_FULL_URI', `${origin}/v1/credentials`)
  const message = await failure()
  expect(message).toContain('the SDK says: SyntaxError')
  expect(message).not.toContain('hush')
})

test('credentials with a line end in them are not quoted', async () => {
  const broken = { ...key, sessionToken: 'hush\nhush' }
  const gathering = gatherAwsEvidence({ region: 'sa-east-1', nonce, now, network: directly, credentials: broken })
  await expect(gathering).rejects.toThrow('a character that no header can carry')
  await expect(gathering).rejects.not.toThrow('hush')
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

  test('one that refuses, and one that is away, is named without its password', async () => {
    webIdentity()
    proxy.answer = (socket) => socket.end('HTTP/1.1 407 No\r\n\r\n')
    const refused = await failure(network)
    expect(refused).toMatch(/the SDK says: the proxy 127\.0\.0\.1:\d+ \(HTTPS_PROXY\) refused CONNECT with 407/)
    const away = await failure({ ...network, rules: through('http://u:hush@127.0.0.1:9') })
    expect(away).toContain('the SDK says: the proxy 127.0.0.1:9 (HTTPS_PROXY) cannot be reached: connect ECONNREFUSED')
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
    expect(await failureInTheEnd(asked.promise, network)).toContain('no answer within 4.5 s')
    await closed.promise
  })
})

test.each(['', 'us-east-1 ', 'us-east-1/', 'US-EAST-1', 'a.b'])(
  'a region of another form is refused: %j',
  async (region) => {
    await expect(gatherAwsEvidence({ region, nonce, now, network: directly, credentials: key })).rejects.toThrow(
      'AWS_REGION',
    )
  },
)
