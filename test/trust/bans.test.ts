// Tests what a ban may name, and whom it then names: every spelling that a person uses, and nothing that matches nobody.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { epochSeconds } from '../../src/protocol/time.ts'
import { mintToken } from '../../src/protocol/tokens.ts'
import { formatIdentity, namesOfIdentity, parseIdentity } from '../../src/trust/banned-identity.ts'
import { type BanKind, findBan, mapsBanned, parseBan } from '../../src/trust/bans.ts'
import { clusterWith, trustWith } from '../fakes/trust.ts'

const TRUST = trustWith({ clusters: [clusterWith({ name: 'lab' }), clusterWith({ name: 'bare', workload: null })] })
const SESSION = 'arn:aws:sts::111122223333:assumed-role/runner/i-0abc'
const USER = 'arn:aws:iam::111122223333:user/team-a/ci/deployer'
const SUB = 'system:serviceaccount:runners:runner'

/** Whether a ban of `text` holds for this identity. */
function holds(text: string, identity: string): boolean {
  const ban = parseBan('identity', text, TRUST)
  if (!ban.ok) throw new Error(ban.error)
  const list = { at: epochSeconds(0), bans: [ban.value], revokedTokens: [] }
  return findBan(list, { enrollmentId: null, runnerId: null, identity, tokenId: null, tenant: 'acme' }) !== null
}

describe('a ban of an AWS identity', () => {
  test.each([
    ['the role', 'arn:aws:iam::111122223333:role/runner'],
    ['the role with a path', 'arn:aws:iam::111122223333:role/team-a/ci/runner'],
    ['the role as STS spells it', 'arn:aws:sts::111122223333:assumed-role/runner'],
    ['the session', SESSION],
    ['the account', '111122223333'],
    ['the account as IAM spells it', 'arn:aws:iam::111122223333:root'],
  ])('by %s holds for a session of the role', (_, text) => {
    expect(holds(text, SESSION)).toBe(true)
  })

  test('of a role holds for any session, and for no role whose name begins alike', () => {
    const role = 'arn:aws:iam::111122223333:role/runner'
    expect(holds(role, 'arn:aws:sts::111122223333:assumed-role/runner/i-0xyz')).toBe(true)
    for (const other of ['runner-2/i', 'Runner/i', 'run/ner']) {
      expect(holds(role, `arn:aws:sts::111122223333:assumed-role/${other}`)).toBe(false)
    }
    expect(holds(role, 'arn:aws:sts::444455556666:assumed-role/runner/i-0abc')).toBe(false)
    expect(holds(role, 'arn:aws:iam::111122223333:user/runner')).toBe(false)
  })

  test('of a session holds for that one alone', () => {
    expect(holds(SESSION, 'arn:aws:sts::111122223333:assumed-role/runner/i-0xyz')).toBe(false)
  })

  test('of a user holds with its path, without, and with another', () => {
    for (const text of [USER, 'arn:aws:iam::111122223333:user/deployer', 'arn:aws:iam::111122223333:user/x/deployer']) {
      expect(holds(text, USER)).toBe(true)
    }
    expect(holds('arn:aws:iam::111122223333:user/team-a/ci', USER)).toBe(false)
    expect(holds('arn:aws:iam::111122223333:role/deployer', USER)).toBe(false)
    expect(holds('111122223333', USER)).toBe(true)
  })

  test('of a ServiceAccount holds for its sub', () => {
    expect(holds(SUB, SUB)).toBe(true)
    expect(holds(SUB, 'system:serviceaccount:runners:runner-2')).toBe(false)
  })

  test('names an identity that its own normal form names, too', () => {
    const name = fc.stringMatching(/^[\w+=,.@-]{1,64}$/)
    const identity = fc.oneof(
      fc.tuple(name, name).map(([role, session]) => `arn:aws:sts::111122223333:assumed-role/${role}/${session}`),
      fc
        .tuple(fc.stringMatching(/^[a-z0-9/]{0,20}$/), name)
        .map(([path, user]) => `arn:aws:iam::111122223333:user/${path === '' ? '' : `${path}/`}${user}`),
    )
    fc.assert(
      fc.property(identity, (text) => {
        const parsed = parseIdentity(text)
        expect(parsed.ok && namesOfIdentity(text).includes(formatIdentity(parsed.value))).toBe(true)
      }),
    )
  })
})

test.each<[BanKind, string, string]>([
  ['identity', 'runner', 'arn:aws:iam::<account>:role/<role>'],
  ['identity', '', 'is no identity'],
  ['identity', '11112222333', '12 digits'],
  ['identity', 'arn:aws:iam::11112222333:role/runner', '12 digits'],
  ['identity', 'arn:aws-us-gov:iam::111122223333:role/runner', 'another partition'],
  ['identity', 'arn:aws:iam::111122223333:role/', 'no role name'],
  ['identity', 'arn:aws:iam::111122223333:role/run*', 'no patterns'],
  ['identity', 'arn:aws:iam::111122223333:role/*/runner', 'no patterns'],
  ['identity', 'arn:aws:iam::111122223333:instance-profile/runner', 'arn:aws:iam::<account>:role/<role>'],
  ['identity', 'arn:aws:iam::111122223333:assumed-role/runner/i', 'assumed-role/<role>/<session>'],
  ['identity', 'arn:aws:sts::111122223333:role/runner', 'arn:aws:iam::<account>:role/<role>'],
  ['identity', 'arn:aws:sts:us-east-1:111122223333:assumed-role/runner', 'write arn:aws:iam'],
  ['identity', 'arn:aws:sts::111122223333:assumed-role/runner/*', 'write arn:aws:iam::111122223333:role/runner'],
  ['identity', 'arn:aws:sts::111122223333:assumed-role/runner/', 'write arn:aws:iam::111122223333:role/runner'],
  ['identity', 'arn:aws:sts::111122223333:assumed-role/team/runner/i', 'arn:aws:iam::111122223333:role/<path>/<role>'],
  ['identity', 'arn:aws:sts::111122223333:federated-user/bob', 'is no ARN that a caller can have'],
  ['identity', 'runners/runner', 'system:serviceaccount:runners:runner'],
  ['identity', 'runners:runner', 'system:serviceaccount:runners:runner'],
  ['identity', 'system:serviceaccount:runners', 'system:serviceaccount:<namespace>:<name>'],
  ['identity', 'system:serviceaccount:Runners:runner', 'system:serviceaccount:<namespace>:<name>'],
  ['identity', 'system:node:ip-10-0-1-5', 'is no identity'],
  ['identity', '0192f3c4-5678-7abc-8def-0123456789ab', '--token'],
  ['identity', 'spiffe://rootpilot/tenant/acme/runner', '--tenant acme'],
  ['runner-id', 'lab/ip-10-0-1-5.ec2.internal', 'write lab/ip-10-0-1-5_ec2_internal'],
  ['runner-id', 'ip-10-0-1-5.ec2.internal', '<cluster>/ip-10-0-1-5_ec2_internal'],
  ['runner-id', 'prod/node-1', 'there is lab, bare'],
  ['runner-id', 'bare/node-1', 'deny.nodes'],
  ['runner-id', 'lab/', 'names no node'],
  ['runner-id', '/node-1', 'names no cluster'],
  ['runner-id', 'lab/node-1/x', 'names no node'],
  ['runner-id', 'lab/Node-1', 'lower case'],
  ['runner-id', 'build 7', '1 to 128'],
  ['runner-id', '', '1 to 128'],
  ['enrollment', 'build-7', '0192f3c4-'],
  ['enrollment', '0192f3c4-5678-4abc-8def-0123456789ab', 'is not the id of an enrollment'],
  ['token', 'ab12', '0192f3c4-'],
  ['tenant', 'Acme', 'a-z, 0-9'],
  ['tenant', 'acmee', 'there is default, acme, globex'],
  ['tenant', 'spiffe://rootpilot/tenant/acme/runner', 'write acme'],
])('a ban by %s of %j matches nobody, and says what to write', (kind, text, instead) => {
  const ban = parseBan(kind, text, TRUST)
  expect(ban).toMatchObject({ ok: false, error: expect.stringContaining(instead) })
})

test.each<[BanKind, string, string]>([
  ['enrollment', '0192F3C4-5678-7ABC-8DEF-0123456789AB', '0192f3c4-5678-7abc-8def-0123456789ab'],
  ['token', '0192f3c4-5678-7abc-8def-0123456789ab', '0192f3c4-5678-7abc-8def-0123456789ab'],
  ['runner-id', 'build-7', 'build-7'],
  ['runner-id', 'lab/ip-10-0-1-5_ec2_internal', 'lab/ip-10-0-1-5_ec2_internal'],
  ['tenant', 'acme', 'acme'],
  ['identity', '111122223333', 'arn:aws:iam::111122223333:root'],
  ['identity', 'arn:aws:iam::111122223333:role/a/b/runner', 'arn:aws:sts::111122223333:assumed-role/runner'],
  ['identity', USER, 'arn:aws:iam::111122223333:user/deployer'],
])('a ban by %s of %j is stored as %j', (kind, text, value) => {
  expect(parseBan(kind, text, TRUST)).toEqual({ ok: true, value: { kind, value } })
})

test.each<[string, boolean]>([
  ['arn:aws:iam::111122223333:role/a/runner', true],
  ['arn:aws:sts::111122223333:assumed-role/runner/i-1', true],
  ['arn:aws:iam::111122223333:role/Runner', false],
  ['arn:aws:iam::111122223333:user/runner', false],
  ['arn:aws:iam::111122223333:user/x/ann', true],
  ['111122223333', true],
  ['444455556666', true],
  ['arn:aws:iam::444455556666:user/anybody', true],
  ['777788889999', false],
  ['system:serviceaccount:runners:runner', true],
  ['system:serviceaccount:runner:runners', false],
])('the trust file maps somebody whom a ban of %s names: %s', (identity, expected) => {
  const mapping = { tenant: 'acme', account: '111122223333' }
  const trust = trustWith({
    awsMappings: [
      { ...mapping, principal: { kind: 'role', name: 'runner' } },
      { ...mapping, principal: { kind: 'user', name: 'ann' } },
      { tenant: 'acme', account: '444455556666', principal: null },
    ],
    kubernetesMappings: [{ tenant: 'acme', cluster: 'lab', namespace: 'runners', serviceAccount: 'runner' }],
  })
  const ban = parseBan('identity', identity, trust)
  expect(ban.ok && mapsBanned(trust, ban.value)).toBe(expected)
})

test('a token that is given in place of its id is not printed', () => {
  const token = mintToken('bootstrap')
  for (const kind of ['token', 'identity', 'runner-id', 'enrollment', 'tenant'] as const) {
    const ban = parseBan(kind, token, TRUST)
    expect(ban).toMatchObject({ ok: false, error: expect.not.stringContaining(token.slice(10)) })
  }
})

test('without a trust file names are taken as they are', () => {
  expect(parseBan('tenant', 'gone', null).ok).toBe(true)
  expect(parseBan('runner-id', 'gone/node-1', null).ok).toBe(true)
})
