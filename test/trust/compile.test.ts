// Tests the compiler of the trust file: what loads, and that every mistake is named with its place.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { err, ok } from '../../src/protocol/result.ts'
import { type Compilation, compileTrust } from '../../src/trust/compile.ts'
import { type CompiledTrust, parseCompiledTrust } from '../../src/trust/compiled.ts'
import { TRUST_FILE_BYTES } from '../../src/trust/document.ts'

// RFC 7515, appendix A.3.1
const POINT = '"x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"'
const CERTIFICATE = '-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n'

const FILES: Record<string, string> = {
  'rsa-1024.json': JSON.stringify({ keys: [{ kty: 'RSA', kid: 'a', e: 'AQAB', n: `${'_'.repeat(170)}8` }] }),
  'sign-only.json': `{"keys":[{"kty":"EC","crv":"P-256","kid":"a",${POINT},"key_ops":["sign"]}]}`,
  'keys.json': `{"keys":[{"kty":"EC","crv":"P-256","kid":"a",${POINT}}]}`,
  'private.json': `{"keys":[{"kty":"EC","crv":"P-256","kid":"a",${POINT},"d":"d"}]}`,
  'rsa-parts.json': '{"keys":[{"kty":"RSA","kid":"a","n":"n","e":"AQAB","dp":"d"}]}',
  'symmetric.json': '{"keys":[{"kty":"oct","kid":"a","k":"a"}]}',
  'no-keys.json': '{"keys":[]}',
  'no-kid.json': `{"keys":[{"kty":"EC","crv":"P-256",${POINT}}]}`,
  'other-keys.json':
    '{"keys":[{"kty":"EC","crv":"P-384","kid":"a","x":"x","y":"y"},{"kty":"RSA","kid":"b","n":"n","e":"AQAB","use":"enc"},{"kty":"RSA","kid":"c","n":"n","e":"AQAB","alg":"RS512"}]}',
  'many-keys.json': JSON.stringify({ keys: Array(101).fill({ kty: 'RSA', kid: 'a', n: 'n', e: 'AQAB' }) }),
  'list.json': '[]',
  'twice.json': '{"keys":[],"keys":[]}',
  'ca.pem': `subject=CN = x\n${CERTIFICATE}`,
  'cut.pem': '-----BEGIN CERTIFICATE-----\nMAA=\n',
  'odd.pem': '-----BEGIN CERTIFICATE-----\n%%%\n-----END CERTIFICATE-----\n',
  'one-bad.pem': `${CERTIFICATE}-----BEGIN CERTIFICATE-----\n%%%\n-----END CERTIFICATE-----\n${CERTIFICATE}`,
  'no-certificate.pem': '-----BEGIN CERTIFICATE-----\nAgEA\n-----END CERTIFICATE-----\n',
  'key.pem': '-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n',
}
const isCertificate = (der: Uint8Array) => der[0] === 0x30
const readFile = (path: string) =>
  FILES[path] === undefined ? err('does not exist') : ok(new TextEncoder().encode(FILES[path]))

const compileBytes = (bytes: Uint8Array, deployed = false) => compileTrust(bytes, { readFile, isCertificate, deployed })
const compile = (text: string, deployed = false) => compileBytes(new TextEncoder().encode(text), deployed)

async function trustOf(text: string): Promise<CompiledTrust> {
  const compilation = await compile(text)
  if (!compilation.ok) throw new Error(JSON.stringify(compilation.error))
  return compilation.value.trust
}

const mistakesOf = (compilation: Compilation): string[] =>
  compilation.ok ? [] : compilation.error.map(({ line, column, message }) => `${line}:${column}: ${message}`)

const cluster = (fields: string) => `clusters:\n  - name: a\n${fields.replace(/^/gm, '    ')}\n`
const withIssuer = (issuer: string, more = '') => cluster(`issuer: ${issuer}${more === '' ? '' : `\n${more}`}`)
const mapped = (mapping: string) =>
  `${withIssuer('https://a.example.com')}tenants:\n  - slug: acme\n    kubernetes: [${mapping}]\n`
const aws = (mapping: string) => `tenants:\n  - slug: acme\n    aws: [${mapping}]\n`

describe('databases', () => {
  const SHARDS = `tenants: [{slug: acme}, {slug: globex, shard: 15}, {slug: initech, shard: 0}]`
  const compileBound = (...boundShards: number[]) =>
    compileTrust(new TextEncoder().encode(SHARDS), { readFile, isCertificate, deployed: true, boundShards })

  test('a tenant is in the one that it names, or in the first', async () => {
    expect((await trustOf(SHARDS)).shards).toEqual([{ tenant: 'globex', shard: 15 }])
  })

  test('the bootstrap tenant has one by its entry', async () => {
    expect((await trustOf('tenants: [{slug: default, shard: 2}]')).shards).toEqual([{ tenant: 'default', shard: 2 }])
  })

  test('one that wrangler.toml does not bind is a mistake, where that is known', async () => {
    expect((await compileBound(0, 15)).ok).toBe(true)
    expect(mistakesOf(await compileBound(0, 1))).toEqual([
      '1:47: tenants[1].shard 15 is the database DB_15, which wrangler.toml does not bind: add it to [[d1_databases]], migrate it and deploy first',
    ])
  })
})

describe('defaults', () => {
  test('an empty mapping trusts nobody and issues for a quarter of an hour', async () => {
    expect(await trustOf('{}')).toMatchObject({
      trustDomain: 'rootpilot',
      alsoTrust: [],
      certificate: { lifetime: 900, reattest: 86_400, onClone: 'end' },
      aws: { regions: ['us-east-1', 'us-west-2', 'sa-east-1'] },
      bootstrapTenant: 'default',
      tenants: ['default'],
      clusters: [],
    })
  })

  test("Cluster's own file loads unchanged", async () => {
    const trust = await trustOf(`clusters:
  - name: prod-eks                 # [a-z0-9-]{1,40}; first segment of the Runner ID
    issuer: https://oidc.eks.us-east-1.amazonaws.com/id/EXAMPLE
    audience: compass-runner       # default compass-runner
    namespace: compass-runner
    serviceAccount: compass-runner
    maxTokenLifetime: 600s         # default and minimum 600s; upper bound on exp - iat
    jwksURI: ""                    # optional; overrides OIDC discovery
    jwksFile: ""                   # optional static JWKS; no fetch
    caFile: ""                     # optional PEM CA for a private issuer
`)
    expect(trust.clusters[0]).toMatchObject({
      name: 'prod-eks',
      mode: 'eks-oidc',
      audiences: ['compass-runner'],
      maxTokenLifetime: 600,
      keys: { from: 'discovery' },
      ca: null,
    })
    expect(trust.kubernetesMappings).toEqual([
      { tenant: 'default', cluster: 'prod-eks', namespace: 'compass-runner', serviceAccount: 'compass-runner' },
    ])
  })

  test('an entry with its own ServiceAccount has the audience and lifetime of 004, another those of the trust domains', async () => {
    const trust = await trustOf(
      `alsoTrust: [whystack]\n${withIssuer('https://a.example.com')}  - {name: b, issuer: "https://b.example.com", namespace: n, serviceAccount: s}\n`,
    )
    expect(trust.clusters.map(({ audiences, maxTokenLifetime }) => [audiences, maxTokenLifetime])).toEqual([
      [['rootpilot-enroll', 'whystack-enroll'], 3600],
      [['compass-runner'], 600],
    ])
  })
})

describe('clusters', () => {
  test('eks and gke give the issuer and the mode, and so does an issuer of their form', async () => {
    const trust = await trustOf(`clusters:
  - {name: e, eks: {region: eu-west-1, id: ABC123}}
  - {name: g, gke: {project: p, location: us-central1, cluster: c}}
  - {name: h, issuer: "https://container.googleapis.com/v1/projects/p/locations/l/clusters/d"}
  - {name: k, issuer: "https://oidc.eks.eu-west-1.amazonaws.com.evil.example.com/id/A"}
`)
    expect(trust.clusters.map(({ issuer, mode }) => [issuer, mode])).toEqual([
      ['https://oidc.eks.eu-west-1.amazonaws.com/id/ABC123', 'eks-oidc'],
      ['https://container.googleapis.com/v1/projects/p/locations/us-central1/clusters/c', 'gke-oidc'],
      ['https://container.googleapis.com/v1/projects/p/locations/l/clusters/d', 'gke-oidc'],
      ['https://oidc.eks.eu-west-1.amazonaws.com.evil.example.com/id/A', 'kubernetes'],
    ])
  })

  test.each([
    'https://a.example.com',
    'https://a.example.com/',
    'https://eastus.oic.prod-aks.azure.example/0000/1111/',
    'https://oidc.eks.eu-west-1.amazonaws.com/id/0123ABCDEF',
    'https://a.example.com:6443',
    'https://bucket.s3.amazonaws.com/a.b_c-d/%7Ex',
  ])('the issuer %s is kept byte for byte', async (issuer) => {
    expect((await trustOf(withIssuer(issuer))).clusters[0]?.issuer).toBe(issuer)
  })

  test.each([
    ['http://a.example.com', 'https://'],
    ['a.example.com', 'https://'],
    ['https://u:p@a.example.com', 'user name'],
    ['https://@a.example.com', ''],
    ['https://a.example.com?x=1', 'query'],
    ['"https://a.example.com#x"', 'fragment'],
    ['"https://a.example.com "', 'character'],
    [`'"https://a.example.com"'`, 'https://'],
    ['https://a.exämple.com', 'character'],
    ['https://A.example.com', 'read as a.example.com'],
    ['https://2130706433', 'read as 127.0.0.1'],
    ['https://a.example.com/b/../c', 'path'],
    ['https://a.example.com/b/%2e%2e/c', 'path'],
    ['https://a.example.com.', 'empty part'],
    ['https://localhost.', 'empty part'],
    ['https://a..example.com', 'empty part'],
    ['https://0x7f.1', 'read as 127.0.0.1'],
    ['https://a.example.com/.well-known/openid-configuration', '.well-known'],
  ])('the issuer %s is a mistake on its own line', async (issuer, hint) => {
    const [mistake = '', ...rest] = mistakesOf(await compile(withIssuer(issuer)))
    expect(rest).toEqual([])
    expect(mistake).toMatch(/^3:13: clusters\[0\]\.issuer/)
    expect(mistake).toContain(hint)
  })

  test.each([
    'https://10.0.0.5:6443',
    'https://[::1]',
    'https://localhost:8443',
    'https://kubernetes.default.svc',
    'https://kubernetes.default.svc.cluster.local',
    'https://metadata.google.internal',
  ])(
    "Cluster's own file loads with the private issuer %s, which a note names; deployed it is a mistake",
    async (issuer) => {
      const own = 'namespace: compass-runner\nserviceAccount: compass-runner\njwksURI: ""\njwksFile: ""\ncaFile: ""'
      const text = withIssuer(issuer, own)
      const compiled = await compile(text)
      expect(compiled).toMatchObject({ value: { notes: [expect.stringMatching(/private.*binding, jwksFile or/)] } })
      expect(compiled.ok && compiled.value.notes[0]).toContain(issuer)
      const [mistake = '', ...rest] = mistakesOf(await compile(text, true))
      expect(rest).toEqual([])
      expect(mistake).toMatch(/^3:13: clusters\[0\]\.issuer .*binding.*jwksFile/)
    },
  )

  test.each(['jwksFile: keys.json', 'jwksURI: https://keys.example.com/jwks', 'binding: CLUSTER'])(
    'a private issuer is deployed with %s, without a note',
    async (wayOut) => {
      const own = `namespace: n\nserviceAccount: s\n${wayOut}`
      expect(await compile(withIssuer('https://10.0.0.5:6443', own), true)).toMatchObject({ value: { notes: [] } })
    },
  )

  test('a private jwksURI loads, and is a mistake for a deployed Worker', async () => {
    const text = withIssuer('https://a.example.com', 'jwksURI: "https://10.0.0.5/jwks"')
    expect((await compile(text)).ok).toBe(true)
    expect(mistakesOf(await compile(text, true))).toEqual([expect.stringContaining('public jwksURI')])
  })

  test('a caFile alone is a mistake for a deployed Worker, with the two ways out', async () => {
    const text = withIssuer('https://10.0.0.5:6443', 'caFile: ca.pem')
    expect(mistakesOf(await compile(text, true))).toEqual([expect.stringMatching(/^4:13: .*binding.*jwksFile/)])
    expect(await compile(text)).toMatchObject({
      ok: true,
      value: { notes: [expect.stringMatching(/no mapping/), expect.stringMatching(/binding or jwksFile/)] },
    })
    expect((await compile(withIssuer('https://10.0.0.5:6443', 'caFile: ca.pem\nbinding: B'), true)).ok).toBe(true)
  })

  test('jwksFile and caFile are compiled in', async () => {
    const [first] = (await trustOf(withIssuer('https://a.example.com', 'jwksFile: keys.json\ncaFile: ca.pem'))).clusters
    expect(first?.keys).toEqual({ from: 'file', jwks: JSON.parse(FILES['keys.json'] ?? '') })
    expect(first?.ca).toBe(CERTIFICATE)
  })

  test('an unreadable certificate among those of a caFile is passed over with a note of its place', async () => {
    const text = withIssuer('https://a.example.com', 'jwksFile: keys.json\ncaFile: one-bad.pem')
    const compiled = await compile(text)
    expect(compiled).toMatchObject({
      value: {
        trust: { clusters: [{ ca: CERTIFICATE + CERTIFICATE }] },
        notes: [
          expect.stringMatching(/^clusters\[0\]\.caFile "one-bad\.pem": block 2 at line 4: .*passed over$/),
          expect.stringMatching(/no mapping/),
        ],
      },
    })
  })

  test.each([
    ['jwksURI: https://k.example.com\njwksFile: keys.json', 'exclude'],
    ['jwksURI: http://k.example.com', 'https://'],
    ['jwksFile: none.json', 'does not exist'],
    ['jwksFile: list.json', 'JWK Set'],
    ['jwksFile: ca.pem', 'JWK Set'],
    ['jwksFile: twice.json', 'JWK Set'],
    ['jwksFile: private.json', 'private key'],
    ['jwksFile: rsa-parts.json', 'private key'],
    ['jwksFile: symmetric.json', 'private key'],
    ['jwksFile: no-keys.json', 'no key'],
    ['jwksFile: no-kid.json', 'no key'],
    ['jwksFile: rsa-1024.json', 'no key'],
    ['jwksFile: sign-only.json', 'no key'],
    ['jwksFile: other-keys.json', 'no key'],
    ['jwksFile: many-keys.json', 'at most 100'],
    ['caFile: none.pem', 'does not exist'],
    ['caFile: keys.json', 'PEM'],
    ['caFile: cut.pem', 'cut'],
    ['caFile: odd.pem', 'block 1 at line 1'],
    ['caFile: no-certificate.pem', 'block 1 at line 1'],
    ['caFile: key.pem', 'private key'],
    ['binding: "a b"', 'wrangler.toml'],
    ['maxTokenLifetime: 599s', '10m to 24h'],
    ['maxTokenLifetime: 24h1s', '10m to 24h'],
    ['node: required', 'optional'],
    ['node: optional\ndeny: {nodes: [n]}', 'exclude'],
    ['deny: {nodes: [Not_a_Node]}', 'RFC 1123'],
    ['deny: {nodes: n}', 'list'],
    ['deny: [n]', 'mapping'],
    ['namespace: n', 'together'],
    ['serviceAccount: s', 'together'],
    ['namespace: "*"\nserviceAccount: s', 'no patterns'],
    ['namespace: "a.*"\nserviceAccount: s', 'no patterns'],
    ['namespace: 123\nserviceAccount: s', 'quotes'],
    ['namespace: 1e3\nserviceAccount: s', 'quotes'],
    ['namespace: true\nserviceAccount: s', 'quotes'],
    ['namespace: null\nserviceAccount: s', 'empty'],
    ['namespace: ""\nserviceAccount: s', 'empty'],
    ['namespace:\nserviceAccount: s', 'empty'],
    ['audience: []', 'empty'],
    ['audience: [a, ""]', 'empty'],
    ['audience: "a b"', 'printable'],
    ['eks: {region: us-east-1, id: A}', 'only one of'],
    ['maxTokenLifeTime: 600s', 'unknown field'],
    ['<<: {}', 'unknown field'],
    ['__proto__: {}', 'unknown field'],
  ])('an entry with %j is one mistake', async (fields, hint) => {
    const mistakes = mistakesOf(await compile(withIssuer('https://a.example.com', fields)))
    expect(mistakes).toEqual([expect.stringContaining(hint)])
  })

  test.each(['600s', '10m', '0h10m', '24h', '1h30m', '1h0m5s'])('maxTokenLifetime: %s is taken', async (text) => {
    expect((await compile(withIssuer('https://a.example.com', `maxTokenLifetime: ${text}`))).ok).toBe(true)
  })

  test.each([
    '600',
    '"600"',
    '0.5h',
    '1d',
    '600000ms',
    '-600s',
    '+600s',
    '10M',
    'PT10M',
    '1e3',
    '10 m',
    '600S',
    '10m1h',
    '10m10m',
    '10:00',
    '0s',
    '99999h',
    '""',
    '~',
    '999999999s',
  ])('maxTokenLifetime: %s is a mistake', async (text) => {
    expect(mistakesOf(await compile(withIssuer('https://a.example.com', `maxTokenLifetime: ${text}`)))).toHaveLength(1)
  })

  test.each([
    ['name', 'clusters: [{name: a, issuer: "https://a.example.com"}, {name: a, issuer: "https://b.example.com"}]'],
    ['issuer', 'clusters: [{name: a, issuer: "https://a.example.com"}, {name: b, issuer: "https://a.example.com"}]'],
    ['issuer', 'clusters: [{name: a, issuer: "https://a.example.com"}, {name: b, issuer: "https://a.example.com/"}]'],
    [
      'issuer',
      'clusters: [{name: a, eks: {region: us-east-1, id: A}}, {name: b, issuer: "https://oidc.eks.us-east-1.amazonaws.com/id/A/"}]',
    ],
  ])('two entries with one %s are a mistake: %s', async (what, text) => {
    expect(mistakesOf(await compile(text))).toEqual([expect.stringContaining(what)])
  })

  test.each(['A', 'a/b', 'a_b', '7', `${'a'.repeat(41)}`, '""'])('the name %s is a mistake', async (name) => {
    expect(mistakesOf(await compile(`clusters: [{name: ${name}, issuer: "https://a.example.com"}]`))).toHaveLength(1)
  })
})

describe('tenants', () => {
  test('a project stands for every gke: entry of it', async () => {
    const trust = await trustOf(`clusters:
  - {name: g1, gke: {project: p, location: l, cluster: c1}}
  - {name: g2, gke: {project: p, location: l, cluster: c2}}
  - {name: g3, gke: {project: q, location: l, cluster: c3}}
tenants:
  - {slug: acme, kubernetes: [{project: p, namespace: n, serviceAccount: s}]}
`)
    expect(trust.kubernetesMappings.map(({ cluster }) => cluster)).toEqual(['g1', 'g2'])
  })

  test('a mapping may name an entry that has a ServiceAccount of its own', async () => {
    const trust = await trustOf(
      `${cluster('issuer: https://a.example.com\nnamespace: n\nserviceAccount: s')}tenants: [{slug: acme, kubernetes: [{cluster: a, namespace: n, serviceAccount: other}]}]\n`,
    )
    expect(trust.kubernetesMappings).toHaveLength(2)
  })

  test.each([
    ['{cluster: b, namespace: n, serviceAccount: s}', 'not under clusters'],
    ['{project: p, namespace: n, serviceAccount: s}', 'no gke: entry'],
    ['{cluster: a, project: p, namespace: n, serviceAccount: s}', 'either'],
    ['{namespace: n, serviceAccount: s}', 'either'],
    ['{cluster: a, serviceAccount: s}', 'namespace'],
    ['{cluster: a, namespace: n}', 'serviceAccount'],
    ['{cluster: a, namespace: "*", serviceAccount: s}', 'no patterns'],
    ['{cluster: a, namespace: n, serviceAccount: s, node: x}', 'unknown field'],
  ])('the mapping %s is a mistake', async (mapping, hint) => {
    expect(mistakesOf(await compile(mapped(mapping)))).toEqual([expect.stringContaining(hint)])
  })

  test.each([
    ['{account: 123456789012}', 'quotes'],
    ['{account: "12345678901"}', '12 digits'],
    ['{account: "1234 5678 9012"}', '12 digits'],
    ['{account: "０１２３４５６７８９０１"}', '12 digits'],
    ['{role: r}', 'account'],
    ['{account: "123456789012", role: r, user: u}', 'not both'],
    ['{account: "123456789012", role: team-a/r}', 'no path'],
    ['{account: "123456789012", role: "r*"}', 'no pattern'],
    ['{account: "123456789012", role: ""}', 'empty'],
    ['{account: "123456789012", arn: x}', 'unknown field'],
  ])('the AWS mapping %s is a mistake', async (mapping, hint) => {
    expect(mistakesOf(await compile(aws(mapping)))).toEqual([expect.stringContaining(hint)])
  })

  test.each([
    'tenants: [{slug: a, aws: [{account: "123456789012", role: r}]}, {slug: b, aws: [{account: "123456789012", role: r}]}]',
    'tenants: [{slug: a, aws: [{account: "123456789012"}]}, {slug: b, aws: [{account: "123456789012"}]}]',
    `${cluster('issuer: https://a.example.com\nnamespace: n\nserviceAccount: s')}tenants: [{slug: b, kubernetes: [{cluster: a, namespace: n, serviceAccount: s}]}]`,
    'clusters: [{name: g, gke: {project: p, location: l, cluster: c}}]\ntenants: [{slug: a, kubernetes: [{project: p, namespace: n, serviceAccount: s}]}, {slug: b, kubernetes: [{cluster: g, namespace: n, serviceAccount: s}]}]',
  ])('one identity for two tenants is a mistake: %s', async (text) => {
    expect(mistakesOf(await compile(text))).toEqual([expect.stringContaining('maps')])
  })

  test('a role wins over its account, and that is said', async () => {
    const compilation = await compile(
      'tenants: [{slug: a, aws: [{account: "123456789012"}]}, {slug: b, aws: [{account: "123456789012", role: r}]}]',
    )
    expect(compilation).toMatchObject({
      ok: true,
      value: { notes: [expect.stringMatching(/role r .* tenant b, the rest .* a/)] },
    })
  })

  test.each(['slug: A', 'slug: ""', 'slug: a_b', `slug: ${'a'.repeat(64)}`, 'aws: []', 'slug: 7'])(
    'a tenant with %s is a mistake',
    async (fields) => {
      expect(mistakesOf(await compile(`tenants: [{${fields}}]`))).toHaveLength(1)
    },
  )

  test('a tenant that stands twice is a mistake', async () => {
    expect(mistakesOf(await compile('tenants: [{slug: a}, {slug: a}]'))).toEqual([
      '1:29: tenants[1] has the slug "a" of tenants[0]',
    ])
  })
})

describe('the rest of the file', () => {
  test.each([
    ['trustDomain: TD.example', 'a-z'],
    ['trustDomain: spiffe://td', 'no spiffe://'],
    ['trustDomain: 2026', 'quotes'],
    ['trustDomain: ""', 'empty'],
    ['alsoTrust: whystack', 'list'],
    ['alsoTrust: [rootpilot]', 'twice'],
    ['alsoTrust: [a, a]', 'twice'],
    ['certificate: {lifetime: 4m59s}', '5m to 24h'],
    ['certificate: {lifetime: 24h1s}', '5m to 24h'],
    ['certificate: {reattest: 59m}', '1h to 720h'],
    ['certificate: {reattest: 721h}', '1h to 720h'],
    ['certificate: {reattest: false}', 'must be `off`, or a duration'],
    ['certificate: {onClone: ignore}', 'refuse'],
    ['certificate: []', 'mapping'],
    ...['-1', '16', '1.0', '01', '0x1', '1e0', '+1', '.inf', 'true', '"1"', 'one'].map((shard) => [
      `tenants: [{slug: acme, shard: ${shard}}]`,
      'must be a whole number from 0 to 15, without quotes',
    ]),
    ['tenants: [{slug: acme, shard: }]', 'is empty'],
    ['tenants: [{slug: acme, shard: [1]}]', 'must be a single value'],
    ['aws: {regions: [no]}', 'commercial'],
    ['aws: {regions: [us-gov-west-1]}', 'commercial'],
    ['aws: {regions: [cn-north-1]}', 'commercial'],
    ['aws: {regions: [us-iso-east-1]}', 'commercial'],
    ['aws: {regions: [us-isob-east-1]}', 'commercial'],
    ['aws: {regions: [eusc-de-east-1]}', 'commercial'],
    ['aws: {regions: ["us-east-1.evil.example.com/"]}', 'commercial'],
    ['aws: {accounts: []}', 'unknown field'],
    ['bootstrapTenant: A', 'a-z'],
    ['tenant: []', 'unknown field'],
    ['Tenants: []', 'unknown field'],
    ['tenants: {slug: a}', 'list'],
    ['clusters: {name: a}', 'list'],
    ['clusters: [a]', 'mapping'],
    ['clusters:', 'empty'],
    ['1: x', 'unknown field'],
  ])('%s is a mistake', async (text, hint) => {
    const mistakes = mistakesOf(await compile(text))
    expect(mistakes).toHaveLength(1)
    if (text !== '1: x') expect(mistakes[0]).toContain(hint)
  })

  test('bounds are inclusive and off switches re-attestation off', async () => {
    expect((await trustOf('certificate: {lifetime: 5m, reattest: 1h}')).certificate).toMatchObject({
      lifetime: 300,
      reattest: 3600,
    })
    expect((await trustOf('certificate: {lifetime: 24h, reattest: 720h, onClone: refuse}')).certificate).toMatchObject({
      lifetime: 86_400,
      reattest: 2_592_000,
      onClone: 'refuse',
    })
    expect((await trustOf('certificate: {reattest: off}')).certificate.reattest).toBeNull()
  })

  test.each([
    ['nothing', ''],
    ['comments alone', '# clusters: []\n'],
    ['a list', '- a\n'],
    ['a word', 'hello'],
    ['a tab', 'tenants:\n\t- slug: a\n'],
    ['a key twice', 'tenants: []\ntenants: []\n'],
    ['a key twice further in', 'certificate: {lifetime: 5m, lifetime: 6m}\n'],
    ['two documents', 'tenants: []\n---\ntenants: []\n'],
    ['an alias', 'tenants: &t []\nclusters: *t\n'],
    ['an alias to itself', 'tenants: &t [*t]\n'],
    ['an alias bomb', 'a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\ntenants: [*c]\n'],
    ['a tag', 'trustDomain: !!str x\n'],
    ['a tag of somebody’s own', 'trustDomain: !env TD\n'],
    ['a tag on an empty value', 'clusters: [{name: a, issuer: "https://a.example.com", caFile: !!str ""}]\n'],
    ['an anchor that nobody uses', 'tenants: &t []\n'],
    ['YAML 1.1', '%YAML 1.1\n---\ncertificate: {reattest: off}\n'],
    ['a merge key', 'certificate: {<<: {lifetime: 5m}}\n'],
    ['lists in lists', '['.repeat(100_000)],
    ['mappings in mappings', '{a: '.repeat(50_000)],
    ['a NUL', 'trustDomain: "a\u0000"\n'],
    ['a file over the limit', `# ${'x'.repeat(TRUST_FILE_BYTES)}\n{}`],
  ])('%s is refused', async (_, text) => {
    expect(mistakesOf(await compile(text)).length).toBeGreaterThan(0)
  })

  test.each([
    ['Latin-1', new Uint8Array([0x23, 0xe4, 0x0a, 0x7b, 0x7d])],
    ['UTF-16', new Uint8Array([0xff, 0xfe, 0x7b, 0x00, 0x7d, 0x00])],
  ])('%s is refused', async (_, bytes) => {
    expect(mistakesOf(await compileBytes(bytes))).toEqual([expect.stringContaining('UTF-8')])
  })

  test.each([
    ['a byte order mark', '\ufefftenants: [{slug: a}]\n'],
    ['CRLF', 'tenants:\r\n  - slug: a\r\n'],
    ['a leading separator', '---\ntenants: [{slug: a}]\n'],
    ['an end marker', 'tenants: [{slug: a}]\n...\n'],
    ['no final newline', 'tenants: [{slug: a}]'],
  ])('%s is fine', async (_, text) => {
    expect((await trustOf(text)).tenants).toEqual(['a', 'default'])
  })

  test.each([
    ['certificate: {lifetime: 600}', 'certificate.lifetime 600 has no unit: write 600s'],
    ['certificate: {lifetime: 5}', 'certificate.lifetime 5 must be a duration from 5m to 24h'],
    ['certificate: {onClone: true}', 'certificate.onClone true must be `end` or `refuse`'],
    ['tenants: [{slug: 12}]', 'tenants[0].slug must be text: put 12 in quotes'],
    [aws('{account: 12345}'), 'tenants[0].aws[0].account 12345 must be 12 digits in quotes'],
  ])('%j: the advice is not the next mistake', async (text, message) => {
    const mistakes = mistakesOf(await compile(text))
    expect(mistakes).toEqual([expect.stringContaining(message)])
  })

  test.each([
    ['trustDomain: *', '1:14: "*": there are no patterns'],
    [aws('{account: "123456789012", role: *}'), '3:43: "*": there are no patterns'],
    ['trustDomain: @x', '1:14: "@x" must be in quotes'],
    ['tenants:\n\t- slug: a', '2:1: a tab: indent with spaces'],
    ['trustDomain: a: b', '1:14: "a: b" has a second ": "'],
    ['tenants:\n  - slug: a\n    aws: []\n   kubernetes: []', '4:1: "   kubernetes: []" is indented wrongly'],
    ['tenants:\n- slug: a\n aws: []', ' is indented wrongly'],
    ['trustDomain: "a', 'a quote that is not closed'],
    ['alsoTrust: [a, b', 'a { or [ that is not closed'],
    ['alsoTrust: [a\ntenants: []', 'a { or [ that is not closed'],
    ['trustDomain: a\nalsoTrust', '2:1: "alsoTrust" is no field: write its name, a colon and a space'],
    ['trustDomain:a\ntenants: []', '1:1: "trustDomain:a": a field is its name, a colon and a space'],
    ['trustDomain: "a\\d"', '"\\\\d" means nothing in double quotes'],
    ["trustDomain: 'a'b'", '1:17: "b\'" has no place here'],
    ['trustDomain: a\n}', '2:1: "}" has no place here'],
    ['trustDomain: &x &y a', '"&y a": anchors, aliases and tags are not allowed'],
    ['alsoTrust: [a,, b]', '1:15: ", b]" has no place here'],
  ])('%j is no YAML, and it says what to write', async (text, message) => {
    const mistakes = mistakesOf(await compile(text))
    expect(mistakes).toEqual([expect.stringContaining(message)])
  })

  test('all mistakes are reported at once, in the order of the file', async () => {
    const mistakes = mistakesOf(
      await compile('trustDomain: A\nclusters:\n  - name: B\n    issuer: http://x\ntenants:\n  - slug: C\nextra: 1\n'),
    )
    expect(mistakes.map((mistake) => mistake.split(':', 1)[0])).toEqual(['1', '3', '4', '6', '7'])
  })

  test('a mistake hides no other one and makes up none', async () => {
    const text = `trustDomain: a
trustDomain: B
aws: { regions: [us-gov-west-1, us-east-1, cn-north-1] }
bootstrapTenant: !env X
clusters:
  - name: a
    issuer: http://a.example.com
    gke: { project: p, location: L, cluster: c }
    audience: ["a b", ok, 7]
    namespace: "*"
    serviceAccount: runner
  - name: a
    issuer: https://b.example.com
    jwksURI: http://b.example.com
    jwksFile: none.json
    node: optional
    deny: { nodes: [N] }
tenants:
  - slug: T
    aws: [{ account: 1, role: a/b, user: c }]
    kubernetes:
      - { cluster: a, namespace: N, serviceAccount: runner }
      - { project: p, namespace: n }
  - slug: t
    kubernetes: [{ cluster: nope, namespace: n, serviceAccount: s }]
`
    const places = mistakesOf(await compile(text)).map((mistake) => mistake.split(': ', 1)[0])
    expect(places).toEqual([
      ...['2:1', '2:14', '3:18', '3:44', '4:23'],
      ...['7:13', '8:10', '8:34', '9:16', '9:27', '10:16'],
      ...['12:11', '14:14', '15:15', '15:15', '17:20', '17:21'],
      ...['19:11', '20:22', '20:31', '20:42', '22:34', '23:9', '25:29'],
    ])
  })

  test('what a mistake quotes is one line of what can be seen', async () => {
    const [mistake] = mistakesOf(await compile('"a\\u001b[31m\\u202e\\nb": 1'))
    expect(mistake).toMatch(/^1:1: unknown field "a\\u001b\[31m\\u202e\\nb"; there is trustDomain, /)
  })

  test('the Worker takes what was compiled, and nothing that was changed since', async () => {
    const trust = await trustOf(withIssuer('https://a.example.com', 'jwksFile: keys.json'))
    const bundled: CompiledTrust = JSON.parse(JSON.stringify(trust))
    expect(await parseCompiledTrust(bundled)).toEqual(trust)
    for (const other of [
      { ...bundled, tenants: ['mallory'] },
      { ...bundled, extra: 1 },
      { ...bundled, hash: 'a'.repeat(64) },
      { ...bundled, version: 2 },
      {},
      null,
      'text',
    ]) {
      await expect(parseCompiledTrust(other)).rejects.toThrow('run `muster trust build`')
    }
  })

  test('the hash names the content, not the layout', async () => {
    const [a, b, c] = [
      await trustOf('tenants: [{slug: a}]'),
      await trustOf('# note\ntenants:\n  - slug: "a"\n'),
      await trustOf('tenants: [{slug: b}]'),
    ]
    expect(a.hash).toBe(b.hash)
    expect(a.hash).not.toBe(c.hash)
  })

  test('a right file with a piece cut, doubled or replaced never throws, and what is taken is whole', async () => {
    const right = `alsoTrust: [whystack]
clusters:
  - {name: a, eks: {region: us-east-1, id: A}, deny: {nodes: [n.internal]}}
  - name: b
    issuer: "https://b.example.com/"
    namespace: n
    serviceAccount: s
    jwksFile: keys.json
  - {name: g, gke: {project: p, location: us-central1, cluster: c}, node: optional}
tenants:
  - slug: t
    aws: [{account: "123456789012", role: r}, {account: "123456789012"}]
    kubernetes: [{project: p, namespace: n, serviceAccount: s}]
`
    expect((await compile(right)).ok).toBe(true)
    const piece = fc.oneof(
      fc.constantFrom('', '*', '&a ', '!!str ', '\n', '\t', '  ', '"', ': ', '- ', '#', '~', '0'),
      fc.string(),
    )
    await fc.assert(
      fc.asyncProperty(fc.nat(right.length), fc.nat(12), piece, async (at, length, put) => {
        const compilation = await compile(right.slice(0, at) + put + right.slice(at + length))
        if (compilation.ok) {
          const { clusters, tenants, kubernetesMappings } = compilation.value.trust
          expect(await parseCompiledTrust(JSON.parse(JSON.stringify(compilation.value.trust)))).toEqual(
            compilation.value.trust,
          )
          const names = clusters.map(({ name }) => name)
          expect(new Set(names).size).toBe(names.length)
          expect(kubernetesMappings.every((m) => names.includes(m.cluster) && tenants.includes(m.tenant))).toBe(true)
          expect(kubernetesMappings.every((m) => m.namespace !== '' && m.serviceAccount !== '')).toBe(true)
        } else {
          expect(compilation.error.length).toBeGreaterThan(0)
          for (const { line, column, message } of compilation.error) {
            expect(line >= 1 && column >= 1 && message !== '' && !message.includes('\n')).toBe(true)
          }
        }
      }),
      { numRuns: 300 },
    )
  })

  test('any text gives mistakes with places or a compiled file, and never throws', async () => {
    const words = [
      'clusters',
      'tenants',
      'name',
      'issuer',
      ': ',
      '- ',
      '\n',
      '  ',
      '[',
      ']',
      '{',
      '}',
      '&a',
      '*a',
      '!!x',
      '"',
      "'",
      '#',
      '|',
      '<<',
      'a',
      '1',
      'https://a.example.com',
    ]
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(
          fc.string(),
          fc.array(fc.constantFrom(...words), { maxLength: 30 }).map((parts) => parts.join('')),
        ),
        async (text) => {
          const compilation = await compile(text)
          if (!compilation.ok)
            expect(
              compilation.error.every(
                ({ line, column, message }) => line >= 1 && column >= 1 && !message.includes('\n'),
              ),
            ).toBe(true)
        },
      ),
      { numRuns: 400 },
    )
  })
})
