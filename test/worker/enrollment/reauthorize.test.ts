// Tests the reauthorization at every renewal: trust file, bans, re-attestation, clones and the trust domain.
import 'reflect-metadata'
import { env, evictDurableObject, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test'
import { X509Certificate } from '@peculiar/x509'
import { beforeEach, describe, expect, test } from 'vitest'
import { hex } from '../../../src/protocol/bytes.ts'
import { addSeconds, hours, minutes, seconds, subtractSeconds, toEpochSeconds } from '../../../src/protocol/time.ts'
import { uuidv7 } from '../../../src/protocol/uuid.ts'
import { parseBan } from '../../../src/trust/bans.ts'
import type { CompiledTrust } from '../../../src/trust/compiled.ts'
import { decide } from '../../../src/trust/decide.ts'
import type { AwsClaims } from '../../../src/trust/modes/aws-sts.ts'
import type { KubernetesClaims } from '../../../src/trust/modes/kubernetes.ts'
import { deleteBan, insertBan } from '../../../src/worker/store/bans.ts'
import { findEnrollment } from '../../../src/worker/store/enrollments.ts'
import { findEvent, listEvents } from '../../../src/worker/store/events.ts'
import { revokeToken } from '../../../src/worker/store/tokens.ts'
import { deployment } from '../../fakes/deployment.ts'
import { enrollBody, makeRequester } from '../../fakes/requester.ts'
import { clusterWith } from '../../fakes/trust.ts'
import {
  type Answered,
  connect,
  db,
  enrollByToken,
  headerOf,
  type Identity,
  mint,
  provisionedBy,
  reasonOf,
  requestUpgrade,
  settled,
  startMuster,
} from '../fleet/runners-fixture.ts'
import { recordEnrollment } from '../store/enrollment-rows.ts'

const { issuer, muster } = await startMuster()

beforeEach(() => deployment.setTrust({}))

const runners = env.ENROLLMENTS

describe('reauthorization at a renewal', () => {
  test('removing a tenant ends its enrollments', async () => {
    const identity = await enrollByToken(muster)
    deployment.setTrust({ tenants: ['default'] })
    expect(await reasonOf(await muster.renew(identity))).toBe('standing_lost')
    deployment.setTrust({})
    expect((await muster.renew(identity)).status).toBe(200)
  })

  test('a revoked token ends its enrollments within 30 seconds', async () => {
    const { token, id } = await mint()
    const identity = await muster.enroll({ mode: 'bootstrap-token', token })
    await revokeToken(db, id, toEpochSeconds(deployment.clock()))
    deployment.advance(31)
    expect(await reasonOf(await muster.renew(identity))).toBe('token_revoked')
  })

  test('a ban is named in the refusal, and can be lifted', async () => {
    const identity = await enrollByToken(muster)
    const ban = { kind: 'enrollment', value: identity.enrollmentId } as const
    await insertBan(db, { ...ban, note: null, createdAt: toEpochSeconds(deployment.clock()) })
    deployment.advance(31)
    const { status, json } = await muster.renew(identity)
    expect([status, json.code]).toEqual([403, 'banned'])
    await deleteBan(db, ban)
    deployment.advance(31)
    expect((await muster.renew(identity)).status).toBe(200)
  })

  const role = { kind: 'role', name: 'runner' } as const
  const arn = 'arn:aws:sts::123456789012:assumed-role/runner/i-1'
  const aws: AwsClaims = { mode: 'aws-sts', account: '123456789012', arn, principal: role }
  const workload = { cluster: 'prod', namespace: 'runners', serviceAccount: 'runner' }
  const pod: KubernetesClaims = { mode: 'kubernetes', ...workload, pod: 'p', node: 'node-1' }
  const before: Partial<CompiledTrust> = {
    clusters: [clusterWith()],
    kubernetesMappings: [{ tenant: 'acme', ...workload }],
    awsMappings: [{ tenant: 'acme', account: aws.account, principal: null }],
  }

  /** Somebody who is in by evidence that this test need not make. */
  async function enrolledBy(claims: AwsClaims | KubernetesClaims): Promise<Identity & { id: string }> {
    deployment.setTrust(before)
    const decision = decide(deployment.trust, claims)
    if (!decision.ok) throw new Error(decision.error.reason)
    const { mode, source } = decision.value
    const id = uuidv7(deployment.clock())
    const identity = await provisionedBy(issuer, {
      id,
      subject: [{ O: ['acme'] }, { OU: [`${mode}:${source}`] }, { CN: [id] }],
    })
    const now = toEpochSeconds(deployment.clock())
    const leaf = new X509Certificate(identity.certificate)
    await recordEnrollment(now, {
      enrollmentId: id,
      ...decision.value,
      claims,
      serial: leaf.serialNumber,
      publicKeyHash: hex(new Uint8Array(await crypto.subtle.digest('SHA-256', leaf.publicKey.rawData))),
      notBefore: subtractSeconds(now, seconds(60)),
      notAfter: addSeconds(now, seconds(900)),
      issuer: issuer.keyId,
    })
    return identity
  }

  test.each<[string, AwsClaims | KubernetesClaims, Partial<CompiledTrust>, string]>([
    [
      'a cluster that moved to another tenant',
      pod,
      { kubernetesMappings: [{ tenant: 'globex', ...workload }] },
      'standing_lost',
    ],
    ['a cluster that is gone', pod, { clusters: [] }, 'standing_lost'],
    ['a mapping that is gone', pod, { kubernetesMappings: [] }, 'standing_lost'],
    ['a denied node', pod, { clusters: [clusterWith({ denyNodes: ['node-1'] })] }, 'node_denied'],
    [
      'an account narrowed to another role',
      aws,
      { awsMappings: [{ tenant: 'acme', account: aws.account, principal: { ...role, name: 'deployer' } }] },
      'standing_lost',
    ],
    [
      'a role given to another tenant',
      aws,
      {
        awsMappings: [
          { tenant: 'acme', account: aws.account, principal: null },
          { tenant: 'globex', account: aws.account, principal: role },
        ],
      },
      'standing_lost',
    ],
    ['a tenant that is gone', aws, { tenants: ['default', 'globex'] }, 'standing_lost'],
  ])('%s ends the enrollment, in a renewal, a connection and an open tunnel', async (_, claims, after, reason) => {
    const { id, ...enrolled } = await enrolledBy(claims)
    const identity = await muster.renew(enrolled)
    expect(identity).toMatchObject({ status: 200 })
    const tunnel = await connect(muster, identity)
    await tunnel.hello()
    deployment.setTrust({ ...before, ...after })
    // As a deploy does.
    await evictDurableObject(runners.getByName(id))
    for (const use of [await muster.renew(identity), await requestUpgrade(muster, { tls: headerOf(identity) })]) {
      expect(await reasonOf(use as Answered)).toBe(reason)
    }
    expect(await tunnel.closed()).toBe(4003)
    deployment.setTrust(before)
    expect((await muster.renew(identity)).status).toBe(200)
  })

  test('a runner ID that the trust file attests no more is given to nobody, and a ban of it holds', async () => {
    const identity = await muster.renew(await enrolledBy(pod))
    expect(identity.runnerId).toBe('prod/node-1')
    deployment.setTrust({ ...before, clusters: [clusterWith({ workload: { namespace: 'x', serviceAccount: 'y' } })] })
    const renewed = await muster.renew(identity)
    expect([renewed.status, renewed.runnerId]).toEqual([200, null])
    expect(await (await connect(muster, renewed)).hello()).toMatchObject({ type: 'ready', runnerId: null })
    const ban = { kind: 'runner-id', value: 'prod/node-1' } as const
    await insertBan(db, { ...ban, note: null, createdAt: toEpochSeconds(deployment.clock()) })
    deployment.advance(31)
    expect((await muster.renew(renewed)).json.code).toBe('banned')
    await deleteBan(db, ban)
    deployment.advance(31)
  })

  test('a shorter reattest holds at the next renewal, and the same request again is no way around it', async () => {
    const identity = await enrolledBy(aws)
    deployment.advance(600)
    const asking = await makeRequester()
    const renewed = await muster.renew(identity, asking)
    deployment.setTrust({ ...before, certificate: { lifetime: minutes(15), reattest: hours(1), onClone: 'end' } })
    let newest: Identity = renewed
    for (let passed = 600; passed < 3600; passed += 600) {
      deployment.advance(600)
      newest = await muster.renew(newest)
      expect(newest).toMatchObject({ status: 200 })
    }
    const late = await makeRequester()
    const last = await muster.renew(newest, late)
    deployment.advance(1)
    expect((await muster.renew(newest, late)).certificate).toBe(last.certificate)
    expect((await muster.renew(last)).json.code).toBe('reattestation_required')
    deployment.advance(600)
    expect((await muster.renew(newest, late)).json.code).toBe('reattestation_required')
  })

  test('a changed issuer of the cluster ends no enrollment', async () => {
    const identity = await enrolledBy(pod)
    deployment.setTrust({ ...before, clusters: [clusterWith({ issuer: 'https://other.example.com' })] })
    expect((await muster.renew(identity)).status).toBe(200)
  })

  test('what a platform proved is to be proven anew after a day, and no second earlier', async () => {
    let identity: Identity = await enrolledBy(aws)
    for (let passed = 0; passed < 24 * 3600; passed += 600) {
      identity = await muster.renew(identity)
      expect(identity).toMatchObject({ status: 200 })
      deployment.advance(600)
    }
    identity = await muster.renew(identity)
    expect(identity).toMatchObject({ status: 200 })
    deployment.advance(1)
    const { status, json } = await muster.renew(identity)
    expect([status, json.code]).toEqual([401, 'reattestation_required'])
  })

  test('reattest: off asks for no re-attestation', async () => {
    let identity: Identity = await enrolledBy(aws)
    deployment.setTrust({ ...before, certificate: { lifetime: hours(24), reattest: null, onClone: 'end' } })
    for (let day = 0; day < 4; day++) {
      identity = await muster.renew(identity)
      expect(identity).toMatchObject({ status: 200 })
      deployment.advance(24 * 3600)
    }
  })

  test.each([
    ['the role', 'arn:aws:iam::123456789012:role/team/runner'],
    ['the role as STS spells it', 'arn:aws:sts::123456789012:assumed-role/runner'],
    ['the session', arn],
    ['the account', '123456789012'],
  ])('a ban by %s ends an enrollment of a session of it', async (_, text) => {
    const identity = await enrolledBy(aws)
    const ban = parseBan('identity', text, deployment.trust)
    if (!ban.ok) throw new Error(ban.error)
    await insertBan(db, { ...ban.value, note: null, createdAt: toEpochSeconds(deployment.clock()) })
    deployment.advance(31)
    expect((await muster.renew(identity)).json.code).toBe('banned')
    await deleteBan(db, ban.value)
    deployment.advance(31)
    expect((await muster.renew(identity)).status).toBe(200)
  })

  test.each(['identity', 'runner-id', 'token', 'tenant', 'enrollment'] as const)(
    'a ban by %s ends an enrollment',
    async (kind) => {
      const { token, id } = await mint('runner', 'banned-runner')
      const { enrollmentId, ...identity } = await muster.enroll({ mode: 'runner-token', token })
      const values = { identity: id, 'runner-id': 'banned-runner', token: id, tenant: 'acme', enrollment: enrollmentId }
      const ban = { kind, value: values[kind] }
      await insertBan(db, { ...ban, note: null, createdAt: toEpochSeconds(deployment.clock()) })
      deployment.advance(31)
      expect((await muster.renew(identity)).json.code).toBe('banned')
      await deleteBan(db, ban)
      deployment.advance(31)
    },
  )
})

describe('the trust domain', () => {
  test('moves with a renewal, and back, by the trust file alone', async () => {
    const first = await enrollByToken(muster)
    deployment.setTrust({ trustDomain: 'whystack', alsoTrust: ['rootpilot'] })
    const moved = await muster.renew(first)
    expect(moved.spiffeId).toBe('spiffe://whystack/tenant/acme/runner')
    expect([moved.tenant, moved.enrollmentId]).toEqual([first.tenant, first.enrollmentId])
    deployment.setTrust({ alsoTrust: ['whystack'] })
    const back = await muster.renew(moved)
    expect(back.spiffeId).toBe('spiffe://rootpilot/tenant/acme/runner')
    deployment.setTrust({ trustDomain: 'whystack' })
    expect(await reasonOf(await muster.renew(back))).toBe('certificate_invalid')
  })
})

describe('a clone', () => {
  test('ends the enrollment, and the event names whose it was', async () => {
    const { token, id } = await mint()
    const stolen = await muster.enroll({ mode: 'bootstrap-token', token })
    const second = await muster.renew(stolen)
    const third = await muster.renew(second)
    const refused = await muster.renew(stolen)
    expect([refused.status, refused.json.code]).toEqual([401, 'attestation_invalid'])
    const event = await findEvent(db, String(refused.json.requestId))
    expect(event).toMatchObject({
      reason: 'clone_suspected',
      proven: true,
      mode: 'mtls-renewal',
      tenant: 'acme',
      identity: id,
      enrollmentId: stolen.enrollmentId,
      serial: new X509Certificate(stolen.certificate).serialNumber,
    })
    expect(await reasonOf(await muster.renew(third))).toBe('enrollment_ended')
    await settled(stolen.enrollmentId)
    expect(await findEnrollment(db, stolen.enrollmentId)).toMatchObject({ endedReason: 'clone_suspected' })
  })

  test('with onClone: refuse loses its own certificate alone', async () => {
    deployment.setTrust({ certificate: { lifetime: minutes(15), reattest: null, onClone: 'refuse' } })
    const stolen = await enrollByToken(muster)
    const third = await muster.renew(await muster.renew(stolen))
    expect(await reasonOf(await muster.renew(stolen))).toBe('clone_suspected')
    expect((await muster.renew(third)).status).toBe(200)
  })

  test('is remembered until the last certificate of the enrollment has ended for good', async () => {
    const stolen = await enrollByToken(muster)
    const third = await muster.renew(await muster.renew(stolen))
    await muster.renew(stolen)
    deployment.advance(900 + 360)
    await runDurableObjectAlarm(runners.getByName(stolen.enrollmentId))
    expect(await reasonOf(await muster.renew(third))).toBe('enrollment_ended')
    deployment.advance(60 + 1)
    await runDurableObjectAlarm(runners.getByName(stolen.enrollmentId))
    const rest = await runInDurableObject(runners.getByName(stolen.enrollmentId), async (_, { storage }) => [
      (await storage.list()).size,
      await storage.getAlarm(),
    ])
    expect(rest).toEqual([0, null])
  })
})

describe('two enrollments of one runner ID', () => {
  test('are named in the event of the second, and both stay', async () => {
    const { token } = await mint('runner', 'shared-7')
    const enroll = async () => {
      const requester = await makeRequester()
      const { json } = await muster.post('/api/enroll', enrollBody(requester, { mode: 'runner-token', token }))
      const [event] = (await listEvents(db, 1000)).filter(({ enrollmentId }) => enrollmentId === json.enrollmentId)
      return { certificate: String(json.certificate), keys: requester.keys, reason: event?.reason }
    }
    const first = await enroll()
    const second = await enroll()
    expect([first.reason, second.reason]).toEqual([null, 'runner_id_shared'])
    expect((await muster.renew(first)).status).toBe(200)
    expect((await muster.renew(second)).status).toBe(200)
    deployment.advance(901)
    expect((await enroll()).reason).toBeNull()
  })
})
