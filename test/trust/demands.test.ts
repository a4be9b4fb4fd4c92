// Tests what the trust file is said to ask for where a request was refused.
import { expect, test } from 'vitest'
import { err } from '../../src/protocol/result.ts'
import { compileTrust } from '../../src/trust/compile.ts'
import { demandsOf, type Seen } from '../../src/trust/demands.ts'

const FILE = `
aws: { regions: [us-east-1, eu-west-3] }
alsoTrust: [whystack]
certificate: { reattest: 12h }
clusters:
  - { name: prod, issuer: "https://k8s.example/", audience: [aud-a, aud-b], maxTokenLifetime: 900s, deny: { nodes: [n-1, n-2] } }
  - { name: lab, issuer: "https://lab.example", node: optional, jwksURI: "https://lab.example/keys" }
tenants:
  - slug: acme
    aws: [{ account: "123456789012", role: runner }, { account: "123456789012", user: ann }]
    kubernetes: [{ cluster: prod, namespace: ns, serviceAccount: sa }]
  - slug: other
    aws: [{ account: "210987654321" }]
`

const NOTHING: Seen = { reason: null, source: null, identity: null, claimed: null }
async function demands(seen: Partial<Seen>): Promise<string> {
  const compiled = await compileTrust(new TextEncoder().encode(FILE), {
    deployed: false,
    readFile: () => err('does not exist'),
    isCertificate: () => true,
  })
  if (!compiled.ok) throw new Error(JSON.stringify(compiled.error))
  return demandsOf(compiled.value.trust, { ...NOTHING, ...seen }).join('\n')
}

const prod = { iss: 'https://k8s.example/' }

test.each<[Partial<Seen>, string]>([
  [{ reason: 'audience_mismatch', claimed: prod }, 'cluster prod takes the audience aud-a or aud-b'],
  [
    { reason: 'token_lifetime', claimed: { ...prod, iat: '1000', exp: '4600' } },
    'cluster prod takes at most 900s from iat to exp; this token has 3600s',
  ],
  [{ reason: 'token_lifetime', claimed: prod }, 'cluster prod takes at most 900s from iat to exp'],
  [
    { reason: 'issuer_unknown', claimed: { iss: 'https://k8s.example' } },
    'its issuers are https://k8s.example/ (prod), https://lab.example (lab)\ncluster prod differs by a / at the end: correct its issuer, both cannot be registered',
  ],
  [
    { reason: 'issuer_unknown', claimed: { iss: 'https://gone.example' } },
    'its issuers are https://k8s.example/ (prod), https://lab.example (lab)',
  ],
  [{ reason: 'node_denied', source: 'prod' }, 'cluster prod denies the nodes n-1, n-2'],
  [
    { reason: 'key_unknown', claimed: prod },
    'cluster prod takes keys of the discovery document of https://k8s.example/',
  ],
  [{ reason: 'key_unknown', claimed: { cluster: 'lab' } }, 'cluster lab takes keys of https://lab.example/keys'],
  [{ reason: 'node_claim', claimed: prod }, 'cluster prod has deny.nodes, so node: optional is not for it'],
  [{ reason: 'tenant_none', claimed: prod }, 'cluster prod maps ns/sa → acme'],
  [{ reason: 'tenant_none', claimed: { cluster: 'lab' } }, 'cluster lab maps no ServiceAccount'],
  [
    { reason: 'tenant_none', identity: 'arn:aws:sts::123456789012:assumed-role/other/i-1' },
    'AWS account 123456789012 maps role runner → acme, user ann → acme',
  ],
  [
    { reason: 'tenant_none', identity: 'arn:aws:iam::210987654321:user/x', source: 'prod' },
    'AWS account 210987654321 maps the whole account → other',
  ],
  [{ reason: 'tenant_none', identity: 'arn:aws:iam::000000000000:user/x' }, 'AWS account 000000000000 maps nobody'],
  [{ reason: 'runner_id_none', source: 'prod' }, 'cluster prod names the runners of no ServiceAccount'],
  [
    { reason: 'keys_stale', claimed: prod },
    'cluster prod takes keys of the discovery document of https://k8s.example/',
  ],
  [{ reason: 'tenant_none' }, 'its tenants are acme, other, default'],
  [{ reason: 'aws_region', claimed: { region: 'eu-west-1' } }, 'aws.regions is us-east-1, eu-west-3'],
  [{ reason: 'certificate_invalid' }, 'certificates are of the trust domain rootpilot or whystack'],
  [{ reason: 'reattest' }, 'certificate.reattest is 43200s'],
  [{ reason: 'token_used', claimed: { token: 'x' } }, ''],
  [{ reason: 'audience_mismatch', claimed: { iss: 'https://gone.example' } }, ''],
])('%j: %s', async (seen, text) => {
  expect(await demands(seen)).toBe(text)
})

test.each(['us-gov-west-1', 'cn-north-1', 'us-iso-east-1', 'eusc-de-east-1', 'nowhere'])(
  'the region %s, which the compiler refuses, is not to be added',
  async (region) => {
    expect(await demands({ reason: 'aws_region', claimed: { region } })).toContain('this is none: set AWS_REGION')
  },
)

test.each([
  ['http://k8s.example', 'must begin with https://'],
  ['https://k8s.example?x', 'must have no query'],
  ['https://k8s.example/.well-known/openid-configuration', 'is a discovery document'],
  ['', 'must begin with https://'],
])('the issuer %j, which the compiler refuses, is not to be added', async (iss, fault) => {
  expect(await demands({ reason: 'issuer_unknown', claimed: { iss } })).toContain(
    `no cluster can have this issuer: it ${fault}`,
  )
})
