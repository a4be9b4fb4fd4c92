// Tests which tenant a proven AWS identity gets from the mappings of the trust file.
import { expect, test } from 'vitest'
import { decide } from '../../../src/trust/decide.ts'
import type { AwsMapping } from '../../../src/trust/modes/aws-sts.ts'
import { fakeSts } from '../../fakes/sts.ts'
import { trustWith } from '../../fakes/trust.ts'
import { appraise, now, roleKey, sign } from '../attestors/aws-fixture.ts'

const ACCOUNT = '111122223333'
const role = (tenant: string, name: string, account = ACCOUNT): AwsMapping => ({
  tenant,
  account,
  principal: { kind: 'role', name },
})
const user = (tenant: string, name: string): AwsMapping => ({
  tenant,
  account: ACCOUNT,
  principal: { kind: 'user', name },
})
const whole = (tenant: string, account = ACCOUNT): AwsMapping => ({ tenant, account, principal: null })

/** The tenant of whoever AWS says it was, or the reason of the refusal. */
async function tenantOf(arn: string, userId: string, mappings: readonly AwsMapping[]): Promise<string> {
  const key = { ...roleKey, arn, userId }
  const { result } = await appraise(
    await sign({ key }),
    fakeSts(() => now, [key]),
  )
  const decision = result.ok
    ? decide(trustWith({ awsMappings: mappings, tenants: ['red', 'blue'] }), result.value)
    : result
  return decision.ok ? decision.value.tenant : decision.error.reason
}

const assumed = (name: string, mappings: readonly AwsMapping[], account = ACCOUNT): Promise<string> =>
  tenantOf(`arn:aws:sts::${account}:assumed-role/${name}/s1`, 'AROAEXAMPLE:s1', mappings)
const iamUser = (name: string, mappings: readonly AwsMapping[]): Promise<string> =>
  tenantOf(`arn:aws:iam::${ACCOUNT}:user/${name}`, 'AIDAEXAMPLE', mappings)

test('two tenants share one account by role', async () => {
  const mappings = [role('red', 'red-runner'), role('blue', 'blue-runner')]
  expect(await assumed('red-runner', mappings)).toBe('red')
  expect(await assumed('blue-runner', mappings)).toBe('blue')
  expect(await assumed('green-runner', mappings)).toBe('tenant_none')
  expect(await assumed('Red-runner', mappings)).toBe('tenant_none')
  expect(await assumed('red-runner-2', mappings)).toBe('tenant_none')
})

test('a role and a user of one name are two identities', async () => {
  const mappings = [role('red', 'runner'), user('blue', 'runner')]
  expect(await assumed('runner', mappings)).toBe('red')
  expect(await iamUser('runner', mappings)).toBe('blue')
  expect(await iamUser('team-a/ci/runner', mappings)).toBe('blue')
  expect(await iamUser('runner', [role('red', 'runner')])).toBe('tenant_none')
})

test('the role wins over its whole account, whichever stands first', async () => {
  for (const mappings of [
    [whole('red'), role('blue', 'runner')],
    [role('blue', 'runner'), whole('red')],
  ]) {
    expect(await assumed('runner', mappings)).toBe('blue')
    expect(await assumed('other', mappings)).toBe('red')
    expect(await iamUser('runner', mappings)).toBe('red')
  }
})

test('the same role name in another account has no tenant, also right after the first was seen', async () => {
  const mappings = [role('red', 'runner'), whole('blue', '444455556666')]
  expect(await assumed('runner', mappings)).toBe('red')
  expect(await assumed('runner', mappings, '999988887777')).toBe('tenant_none')
  expect(await assumed('runner', mappings, '444455556666')).toBe('blue')
})

test('an SSO role is mapped by its whole name', async () => {
  const name = 'AWSReservedSSO_PlatformAdmin_0a1b2c3d4e5f6071'
  expect(await assumed(name, [role('red', name)])).toBe('red')
  expect(await assumed(name, [role('red', 'PlatformAdmin')])).toBe('tenant_none')
})

test('a session name decides nothing', async () => {
  const mappings = [role('red', 'runner')]
  const arn = (session: string) => `arn:aws:sts::${ACCOUNT}:assumed-role/runner/${session}`
  for (const session of ['..', 'ci=build,42@repo.example-a_b+c', 'admin']) {
    expect(await tenantOf(arn(session), `AROAEXAMPLE:${session}`, mappings)).toBe('red')
  }
})
