// Tests the parsers of the `aws-sts` attestor with random input: XML, Authorization, ARNs and headers.
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { claimsOf } from '../../../src/worker/attestors/aws/arn.ts'
import { parseAuthorization } from '../../../src/worker/attestors/aws/authorization.ts'
import { readXml, type XmlElement } from '../../../src/worker/attestors/aws/strict-xml.ts'
import { identityAnswer } from '../../fakes/sts.ts'
import { appraise, roleKey, sign } from './aws-fixture.ts'

// A failure prints its seed and the smallest input.
const RUNS = { numRuns: 300 }

const NAMESPACE = 'https://sts.amazonaws.com/doc/2011-06-15/'
const ROOT = 'GetCallerIdentityResponse'
const good = identityAnswer(roleKey).body

/** A text near the good one: a piece of it taken out, doubled, moved or replaced by what confuses readers. */
const near = (text: string, pieces: readonly string[]) =>
  fc
    .tuple(fc.nat(text.length), fc.nat(40), fc.constantFrom('', ...pieces), fc.boolean())
    .map(([at, length, piece, keep]) => text.slice(0, at) + piece + text.slice(keep ? at : at + length))

test('no text makes the XML reader throw or find what is not there', () => {
  const pieces = [
    '<',
    '>',
    '&lt;',
    '<!--',
    '-->',
    '<![CDATA[',
    ']]>',
    '<?x?>',
    '</Arn>',
    '<Arn>',
    '\0',
    '\ufeff',
    '"',
    '/',
  ]
  fc.assert(
    fc.property(fc.oneof(fc.string(), near(good, pieces)), (text) => {
      const reading = readXml(text, ROOT, NAMESPACE)
      // What was read, written down again, is what stood there but for white space between elements.
      if (reading.ok) expect(squeeze(text)).toContain(squeeze(write(reading.value)))
    }),
    RUNS,
  )
})

const write = ({ name, children, text }: XmlElement): string =>
  `<${name}${name === ROOT ? ` xmlns="${NAMESPACE}"` : ''}>${text}${children.map(write).join('')}</${name}>`
const squeeze = (text: string): string => text.replace(/\s/g, '')

test('no element tree of another depth or name is read as ours', () => {
  const name = fc.stringMatching(/^[A-Za-z]{1,6}$/)
  const { tree } = fc.letrec<{ tree: string }>((tie) => ({
    tree: fc.oneof(
      { depthSize: 'small' },
      name.map((n) => `<${n}>x</${n}>`),
      fc.tuple(name, fc.array(tie('tree'), { maxLength: 3 })).map(([n, inner]) => `<${n}>${inner.join('')}</${n}>`),
    ),
  }))
  fc.assert(
    fc.property(tree, (inner) => {
      const reading = readXml(`<${ROOT} xmlns="${NAMESPACE}">${inner}</${ROOT}>`, ROOT, NAMESPACE)
      const depth = inner
        .match(/<\/?/g)
        ?.reduce(
          ({ now, most }, tag) =>
            tag === '<' ? { now: now + 1, most: Math.max(most, now + 1) } : { now: now - 1, most },
          { now: 0, most: 0 },
        ).most
      expect(reading.ok).toBe((depth ?? 0) <= 2)
      expect(readXml(inner, ROOT, NAMESPACE).ok).toBe(false)
    }),
    RUNS,
  )
})

test('an Authorization header that is read is the one text of its parts', async () => {
  const { Authorization = '' } = (await sign()).headers
  const pieces = [', ', ',', ';', '=', '/', ' ', 'Credential=', 'SignedHeaders=host', 'Signature=', 'host;', '%2F', 'A']
  fc.assert(
    fc.property(fc.oneof(fc.string(), near(Authorization, pieces)), (text) => {
      const parts = parseAuthorization(text)
      if (parts === null) return
      const { accessKeyId, scope, signedHeaders } = parts
      const credential = `Credential=${accessKeyId}/${scope.date}/${scope.region}/${scope.service}/aws4_request`
      const written = `AWS4-HMAC-SHA256 ${credential},SignedHeaders=${signedHeaders.join(';')},Signature=`
      expect(text.replaceAll(', ', ',').slice(0, -64)).toBe(written)
      expect(new Set(signedHeaders).size).toBe(signedHeaders.length)
    }),
    RUNS,
  )
})

test('no identity makes the reader of ARNs throw or name what the ARN does not', () => {
  const { arn, userId } = roleKey
  const part = fc.constantFrom(
    'aws',
    'aws-cn',
    'sts',
    'iam',
    '',
    '111122223333',
    'user/a',
    'assumed-role/a/b',
    'root',
    ':',
  )
  const arns = fc.oneof(
    fc.string(),
    near(arn, [':', '/', 'user', '\n', '..']),
    fc.array(part, { maxLength: 8 }).map((parts) => ['arn', ...parts].join(':')),
  )
  fc.assert(
    fc.property(arns, fc.constantFrom(userId, 'AIDAX', '', 'A:b', ':b'), (text, id) => {
      const claims = claimsOf({ arn: text, account: '111122223333', userId: id })
      if (!claims.ok) return
      const { principal } = claims.value
      const session = id.slice(id.indexOf(':') + 1)
      const expected =
        principal.kind === 'role'
          ? text === `arn:aws:sts::111122223333:assumed-role/${principal.name}/${session}`
          : text.startsWith('arn:aws:iam::111122223333:user/') && text.endsWith(`/${principal.name}`)
      expect(expected).toBe(true)
      expect(principal.name).not.toContain('/')
    }),
    RUNS,
  )
})

test('no set of headers makes the attestor throw, and none that was not signed reaches STS in another form', async () => {
  const { headers, ...rest } = await sign()
  const names = fc.constantFrom(
    'Host',
    'host',
    'X-Amz-Date',
    'x-amz-date',
    'Accept',
    '__proto__',
    'X-Muster-Nonce',
    'é',
    '',
  )
  const values = fc.oneof(fc.string(), fc.constantFrom('20260301T120000Z', 'sts.us-east-1.amazonaws.com', '\r\n', ''))
  const changes = fc.dictionary(fc.oneof(names, fc.string()), values, { maxKeys: 3 })
  await fc.assert(
    fc.asyncProperty(changes, async (changed) => {
      const { result, calls } = await appraise({ ...rest, headers: { ...headers, ...changed } })
      expect(calls.length).toBeLessThanOrEqual(1)
      if (result.ok) expect(calls[0]?.headers.length).toBe(8)
    }),
    { numRuns: 200 },
  )
})
