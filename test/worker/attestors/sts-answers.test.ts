// Tests how the `aws-sts` attestor reads the answers of STS: accepted, refused or an outage.
import { expect, test } from 'vitest'
import { STS_BODY_BYTES } from '../../../src/protocol/limits.ts'
import type { Reason } from '../../../src/protocol/reasons.ts'
import { type FakeAnswer, fakeSts } from '../../fakes/sts.ts'
import { appraise as appraiseEvidence, now, sign } from './aws-fixture.ts'

const files = import.meta.glob<string>('../../cases/sts/*/*', { query: '?raw', import: 'default', eager: true })
const file = (name: string): string => files[`../../cases/sts/${name}`] as string

/** What becomes of evidence that AWS answers like this. */
async function appraise(answer: FakeAnswer) {
  const sts = fakeSts(() => now)
  sts.instead.push(answer)
  const { result, calls } = await appraiseEvidence(await sign(), sts)
  expect(calls).toHaveLength(1)
  return result
}

const xml = (body: string, status = 200): FakeAnswer => ({ status, headers: { 'content-type': 'text/xml' }, body })

const role = (name: string, session: string, account = '111122223333') => ({
  mode: 'aws-sts',
  account,
  arn: `arn:aws:sts::${account}:assumed-role/${name}/${session}`,
  principal: { kind: 'role', name },
})
const user = (path: string, name: string) => ({
  mode: 'aws-sts',
  account: '111122223333',
  arn: `arn:aws:iam::111122223333:user${path}${name}`,
  principal: { kind: 'user', name },
})

const ACCEPTED: Record<string, object> = {
  'account-leading-zero.xml': role('runner-role', 's1', '000011112222'),
  'assumed-role-64char.xml': role('r'.repeat(64), 's'.repeat(64)),
  'assumed-role-dotdot-session.xml': role('runner-role', '..'),
  'assumed-role-odd-session.xml': role('runner-role', 'ci=build,42@repo.example-a_b+c'),
  'assumed-role-path-lost.xml': role('deployer', 's1'),
  'assumed-role.xml': role('runner-role', 'i-0abc1234def567890'),
  'compact.xml': role('runner-role', 's1'),
  'crlf.xml': role('runner-role', 's1'),
  'ecs-task.xml': role('ecsTaskRole', '0123456789abcdef0123456789abcdef'),
  'eks-pod-identity.xml': role('pod-runner', 'eks-demo-runner-0-1b4e28ba-2fa1-41d2-883f-0016d3cca427'),
  'iam-user-path.xml': user('/team-a/ci/', 'build-bot'),
  'iam-user.xml': user('/', 'build-bot'),
  'irsa.xml': role('irsa-runner', 'botocore-session-1772366400'),
  'order-swapped.xml': role('runner-role', 's1'),
  'service-linked.xml': role('AWSServiceRoleForAutoScaling', 'AutoScaling'),
  'sso.xml': role('AWSReservedSSO_PlatformAdmin_0a1b2c3d4e5f6071', 'dev.person@example.test'),
  'xml-declaration.xml': role('runner-role', 's1'),
}

test.each(Object.entries(ACCEPTED))('the answer %s names its principal', async (name, claims) => {
  expect(await appraise(xml(file(`ok/${name}`)))).toEqual({ ok: true, value: claims })
})

const REFUSED: Record<string, [FakeAnswer, Reason]> = {
  'ok/cn.xml': [xml(file('ok/cn.xml')), 'aws_principal'],
  'ok/gov.xml': [xml(file('ok/gov.xml')), 'aws_principal'],
  'ok/root.xml': [xml(file('ok/root.xml')), 'aws_principal'],
  'ok/federated-user.xml': [xml(file('ok/federated-user.xml')), 'aws_principal'],
  'ok/json.json': [json(200, 'ok/json.json'), 'sts_answer'],
  'bad200/json-with-xml-inside.json': [json(200, 'bad200/json-with-xml-inside.json'), 'sts_answer'],
  'bad200/truncated.xml': [xml(file('bad200/truncated.xml')), 'sts_unavailable'],
  'bad200/html-login.html': [html(200, 'bad200/html-login.html'), 'sts_answer'],
  'errors/expired-token.xml': [xml(file('errors/expired-token.xml'), 403), 'sts_expired'],
  'errors/sig-expired.xml': [xml(file('errors/sig-expired.xml'), 403), 'sts_clock'],
  'errors/sig-not-yet-current.xml': [xml(file('errors/sig-not-yet-current.xml'), 403), 'sts_clock'],
  'errors/sig-mismatch.xml': [xml(file('errors/sig-mismatch.xml'), 403), 'sts_signature'],
  'errors/wrong-region-scope.xml': [xml(file('errors/wrong-region-scope.xml'), 403), 'aws_scope'],
  'errors/invalid-client-token.xml': [xml(file('errors/invalid-client-token.xml'), 403), 'sts_key_unknown'],
  'errors/missing-auth-token.xml': [xml(file('errors/missing-auth-token.xml'), 403), 'sts_refused'],
  'errors/incomplete-signature.xml': [xml(file('errors/incomplete-signature.xml'), 400), 'sts_refused'],
  'errors/error-json.json': [json(403, 'errors/error-json.json'), 'sts_refused'],
  'errors/service-unavailable.xml': [xml(file('errors/service-unavailable.xml'), 503), 'sts_unavailable'],
  'errors/internal-failure.xml': [xml(file('errors/internal-failure.xml'), 500), 'sts_unavailable'],
  'errors/proxy-502.html': [html(502, 'errors/proxy-502.html'), 'sts_unavailable'],
  'errors/redirect.txt': [
    { status: 302, headers: { location: 'https://attacker.example/' }, body: '' },
    'sts_unavailable',
  ],
}
function json(status: number, name: string): FakeAnswer {
  return { status, headers: { 'content-type': 'application/json' }, body: file(name) }
}
function html(status: number, name: string): FakeAnswer {
  return { status, headers: { 'content-type': 'text/html' }, body: file(name) }
}

test.each(Object.entries(REFUSED))('the answer %s is refused for its own reason', async (_, [answer, reason]) => {
  expect(await appraise(answer)).toMatchObject({ ok: false, error: { reason } })
})

test('who is no role or user is named in the event', async () => {
  expect(await appraise(xml(file('ok/root.xml')))).toMatchObject({
    error: { claimed: { arn: expect.stringMatching(/^arn:aws:iam::\d{12}:root$/) } },
  })
})

const OTHERS = Object.keys(files)
  .map((path) => path.slice('../../cases/sts/'.length))
  .filter((name) => !Object.hasOwn(REFUSED, name) && !Object.hasOwn(ACCEPTED, name.slice('ok/'.length)))

test.each(OTHERS)('the answer %s is none', async (name) => {
  expect(name).toMatch(/^bad200\//)
  expect(await appraise(xml(file(name)))).toMatchObject({ ok: false, error: { reason: 'sts_answer' } })
})

const good = file('ok/assumed-role.xml')

test.each<[string, string]>([
  ['the same result twice over', good + good],
  ['a comment after the end', `${good}<!-- -->`],
  ['a processing instruction', `<?xml-stylesheet href="x"?>${good}`],
  ['a declaration of another version', `<?xml version="1.1"?>${good}`],
  ['a byte order mark', `\ufeff${good}`],
  ['a prefix', good.replaceAll('GetCaller', 'sts:GetCaller')],
  ['a second namespace', good.replace('xmlns=', 'xmlns:x="y" xmlns=')],
  ['no namespace', good.replace(/ xmlns="[^"]*"/, '')],
  ['an attribute on a field', good.replace('<Arn>', '<Arn a="b">')],
  ['a character reference', good.replace('runner-role', 'runner&#45;role')],
  ['an empty element', good.replace('<UserId>', '<Extra/><UserId>')],
  ['a field that nobody knows', good.replace('<UserId>', '<Extra>x</Extra><UserId>')],
  ['text between fields', good.replace('<UserId>', 'x<UserId>')],
  ['a field inside a field', good.replace('<Arn>', '<Arn><Arn>').replace('</Arn>', '</Arn></Arn>')],
  ['no account', good.replace(/<Account>.*<\/Account>/, '')],
  ['the result outside the response', good.replace(/<(\/?)GetCallerIdentityResponse[^>]*>/g, '<$1ErrorResponse>')],
  ['a user ID of another session', good.replace(':i-0abc1234def567890<', ':i-0abc1234def567891<')],
  ['a user ID whose session only ends alike', good.replace('ROLEID0001:', 'ROLEID0001:x:')],
  ['an account in other digits', good.replaceAll('111122223333', '１１１１２２２２３３３３')],
  ['an account of eleven digits', good.replaceAll('111122223333', '11112222333')],
  ['a region in the ARN', good.replace('sts::', 'sts:us-east-1:')],
  ['a role under the other service', good.replace(':sts::', ':iam::')],
  ['a seventh part in the ARN', good.replace('i-0abc1234def567890</Arn>', 'i-0abc1234def567890:x</Arn>')],
  ['a role name with a line end', good.replace('runner-role', 'runner\nrole')],
  ['an unclosed tag of another kind', '<html><body'],
])('an answer with %s is refused', async (_, body) => {
  const result = await appraise(xml(body))
  expect(result.ok).toBe(false)
  expect(!result.ok && result.error.reason).toMatch(/^(sts_answer|aws_principal)$/)
})

test('a document that is cut off anywhere counts as an outage, never as an identity', async () => {
  const compact = file('ok/compact.xml')
  const start = compact.indexOf('<GetCallerIdentityResult>')
  for (let end = start; end < compact.length; end += 7) {
    expect(await appraise(xml(compact.slice(0, end)))).toMatchObject({ error: { reason: 'sts_unavailable' } })
  }
})

test('an answer that says it is something else than XML is not read as XML', async () => {
  expect(await appraise({ status: 200, headers: { 'content-type': 'application/json' }, body: good })).toMatchObject({
    error: { reason: 'sts_answer' },
  })
  expect((await appraise({ status: 200, headers: { 'content-type': 'Text/XML; charset=UTF-8' }, body: good })).ok).toBe(
    true,
  )
})

test.each([201, 206, 226])('success %i is not the answer', async (status) => {
  expect(await appraise(xml(good, status))).toMatchObject({ error: { reason: 'sts_answer' } })
})

test.each([301, 307, 308, 429, 500, 502, 503, 504])(
  'status %i is an outage, whatever the body says',
  async (status) => {
    expect(await appraise(xml(good, status))).toMatchObject({ error: { reason: 'sts_unavailable' } })
  },
)

test.each([400, 401, 403, 404, 408])('status %i is a refusal, whatever the body says', async (status) => {
  expect(await appraise(xml(good, status))).toMatchObject({
    error: { reason: 'sts_refused', claimed: { status: String(status), stsError: 'none' } },
  })
})

test('throttling is an outage also where it comes as a 400', async () => {
  const throttled = file('errors/sig-mismatch.xml').replace('SignatureDoesNotMatch', 'Throttling')
  expect(await appraise(xml(throttled, 400))).toMatchObject({ error: { reason: 'sts_unavailable' } })
})

test('the error code of STS goes into the event, its words and odd codes do not', async () => {
  expect(await appraise(xml(file('errors/expired-token.xml'), 403))).toEqual({
    ok: false,
    error: { reason: 'sts_expired', claimed: { status: '403', stsError: 'ExpiredToken' } },
  })
  expect(await appraise(xml('<Code>a b\n</Code>', 403))).toMatchObject({ error: { claimed: { stsError: 'none' } } })
})

test('an answer may have 64 KiB and not one octet more', async () => {
  const padded = (length: number) => good + ' '.repeat(length - good.length)
  expect((await appraise(xml(padded(STS_BODY_BYTES)))).ok).toBe(true)
  const over = { ok: false, error: { reason: 'sts_unavailable' } }
  expect(await appraise(xml(padded(STS_BODY_BYTES + 1)))).toMatchObject(over)
  expect(await appraise(xml(padded(STS_BODY_BYTES + 1), 403))).toMatchObject(over)
})
