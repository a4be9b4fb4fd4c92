// Tests the call to STS from a Worker in workerd against a real HTTP server. What workerd sends differs from what a
// Request object says, so the server verifies the signature of the octets that arrive.
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { convertV4MiniflareOptions, Miniflare } from 'miniflare'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { systemClock, toEpochSeconds } from '../../../src/protocol/time.ts'
import { type FakeKey, fakeSts, type Signing, signEvidence } from '../../fakes/sts.ts'
import { type StsServer, serveSts } from '../../fakes/sts-server.ts'

const key: FakeKey = {
  accessKeyId: 'ASIAEXAMPLEKEYID0001',
  secretAccessKey: 'a secret',
  sessionToken: 'a token',
  arn: 'arn:aws:sts::111122223333:assumed-role/runner/i-0abc',
  userId: 'AROAEXAMPLE:i-0abc',
}
const nonce = 'N'.repeat(64)
const sts = fakeSts(systemClock, [key])
let server: StsServer
let miniflare: Miniflare

beforeAll(async () => {
  server = await serveSts(sts)
  const bundled = await build({
    stdin: {
      resolveDir: fileURLToPath(new URL('../../../src', import.meta.url)),
      contents: `import { awsSts } from './worker/attestors/aws-sts.ts'
        const limits = { allowNamedKey: async () => true, allowProvenKey: async () => true }
        export default { fetch: async (request, { STS }) => {
          const { evidence, now } = await request.json()
          const attestor = awsSts({ regions: ['us-east-1'], fetch: (url, init) => STS.fetch(url, init), ...limits })
          return Response.json(await attestor.appraise(evidence, { now, challengeNonce: '${nonce}', address: '' }))
        } }`,
    },
    bundle: true,
    format: 'esm',
    write: false,
  })
  miniflare = new Miniflare(
    convertV4MiniflareOptions({
      modules: true,
      script: bundled.outputFiles[0]?.text ?? '',
      compatibilityDate: '2026-11-01',
      serviceBindings: { STS: { external: { address: server.url.slice('http://'.length), http: {} } } },
    }),
  )
  await miniflare.ready
})

afterAll(async () => {
  await miniflare?.dispose()
  await server?.close()
})

async function appraise(signing: Partial<Signing> = {}): Promise<unknown> {
  const at = Date.now()
  const evidence = await signEvidence({ key, nonce, at, ...signing })
  const body = JSON.stringify({ evidence, now: toEpochSeconds(systemClock()) })
  const answer = await miniflare.dispatchFetch('http://worker/', { method: 'POST', body })
  return answer.json()
}

test('what AWS verifies on the wire is what was signed', async () => {
  expect(await appraise()).toMatchObject({ ok: true, value: { arn: key.arn } })
  expect(sts.calls.at(-1)).toMatchObject({
    method: 'POST',
    target: '/',
    body: 'Action=GetCallerIdentity&Version=2011-06-15',
  })
  expect(
    sts.calls
      .at(-1)
      ?.headers.map(([name]) => name.toLowerCase())
      .sort(),
  ).toEqual([
    'accept',
    'authorization',
    'content-length',
    'content-type',
    'host',
    'x-amz-date',
    'x-amz-security-token',
    'x-muster-nonce',
  ])
})

test.each<[string, Partial<Signing>]>([
  ['no content type', { headers: { 'Content-Type': undefined } }],
  [
    'another spelling of the content type',
    { headers: { 'Content-Type': 'application/x-www-form-urlencoded;charset=UTF-8' } },
  ],
  ['the length of the body', { headers: { 'Content-Length': '43' } }],
  ['a user agent', { headers: { 'User-Agent': 'aws-sdk-java/2.30  md/io#sync' } }],
  [
    'headers of SDKs',
    {
      headers: {
        'amz-sdk-request': 'attempt=1; max=3',
        'X-Amz-User-Agent': 'aws-sdk-js/3',
        'x-amz-content-sha256': 'ab',
      },
    },
  ],
])('the signature holds on the wire with %s signed', async (_, signing) => {
  expect(await appraise(signing)).toMatchObject({ ok: true })
})

test('a redirect is not followed', async () => {
  const before = sts.calls.length
  sts.instead.push({ status: 302, headers: { location: `${server.url}/elsewhere` }, body: '' })
  expect(await appraise()).toMatchObject({ ok: false, error: { reason: 'sts_unavailable' } })
  expect(sts.calls.length - before).toBe(1)
})

test('a connection that hangs is given up, before the answer and within it', async () => {
  const head = { status: 200, headers: { 'content-type': 'text/xml' }, body: '<GetCallerIdentityResponse' }
  sts.instead.push({ ...head, stall: 'before' }, { ...head, stall: 'within' })
  const unavailable = { ok: false, error: { reason: 'sts_unavailable' } }
  expect(await Promise.all([appraise(), appraise()])).toEqual([unavailable, unavailable])
})

test('an answer over the limit is not read to its end', async () => {
  const body = 'x'.repeat(1024 * 1024)
  sts.instead.push({ status: 200, headers: { 'content-type': 'text/xml' }, body, stall: 'within' })
  // An answer that was given up for its time has no status in the event.
  const overLimit = { reason: 'sts_unavailable', claimed: { status: '200' } }
  expect(await appraise()).toEqual({ ok: false, error: overLimit })
})
