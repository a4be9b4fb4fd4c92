import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { epochMilliseconds } from '../../../src/protocol/time.ts'
import { type AwsEvidence, AwsEvidenceError, gatherAwsEvidence } from '../../../src/runner/evidence/aws-sts.ts'
import { type FakeKey, fakeSts } from '../../fakes/sts.ts'

const now = epochMilliseconds(Date.UTC(2026, 2, 1, 12))
const nonce = 'N'.repeat(64)
const gather = (): Promise<AwsEvidence> => gatherAwsEvidence({ region: 'sa-east-1', nonce, now })

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

test('a standing key sends no session token', async () => {
  const { sessionToken: _, ...standing } = key
  const evidence = await gatherAwsEvidence({ region: 'sa-east-1', nonce, now, credentials: standing })
  expect(evidence.headers).not.toHaveProperty('x-amz-security-token')
  await verify(evidence, standing)
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

test('web identity is reached, as IRSA sets it up, and asks STS of the region of the evidence', async () => {
  const asked: string[] = []
  const origin = await serve(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    asked.push(Buffer.concat(chunks).toString())
    const { accessKeyId, secretAccessKey, sessionToken } = issued(asked.length)
    response.setHeader('content-type', 'text/xml')
    response.end(`<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
      <AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>${accessKeyId}</AccessKeyId>
      <SecretAccessKey>${secretAccessKey}</SecretAccessKey><SessionToken>${sessionToken}</SessionToken>
      <Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult>
    </AssumeRoleWithWebIdentityResponse>`)
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

async function failure(): Promise<string> {
  const error = await gather().catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(AwsEvidenceError)
  return (error as AwsEvidenceError).message
}

test('a machine without any of it fails before 5 seconds are over, and says what was tried', {
  timeout: 5000,
}, async () => {
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

test('a container endpoint that never answers fails before 5 seconds are over', { timeout: 5000 }, async () => {
  vi.stubEnv('AWS_CONTAINER_CREDENTIALS_FULL_URI', `${await serve(() => undefined)}/v1/credentials`)
  expect(await failure()).toContain(
    'container (AWS_CONTAINER_CREDENTIALS_FULL_URI set); the SDK says: no answer within 4.5 s',
  )
})

test('an expired SSO session is told in the words of AWS', async () => {
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
  const gathering = gatherAwsEvidence({ region: 'sa-east-1', nonce, now, credentials: broken })
  await expect(gathering).rejects.toThrow('a character that no header can carry')
  await expect(gathering).rejects.not.toThrow('hush')
})

test.each(['', 'us-east-1 ', 'us-east-1/', 'US-EAST-1', 'a.b'])(
  'a region of another form is refused: %j',
  async (region) => {
    await expect(gatherAwsEvidence({ region, nonce, now, credentials: key })).rejects.toThrow('AWS_REGION')
  },
)
