// Tests the lineage of an enrollment: which certificate may renew or connect, and what counts as a clone.
import { describe, expect, test } from 'vitest'
import { epochSeconds } from '../../../src/protocol/time.ts'
import { GRANTS_KEPT } from '../../../src/worker/fleet/grants.ts'
import {
  connectionVerdict,
  type Lineage,
  renewalVerdict,
  type SignedLeaf,
  startAnew,
  startLineage,
} from '../../../src/worker/fleet/lineage.ts'

const T0 = 1_772_366_400
const LIFETIME = 900

/** Plays an enrollment: who holds which certificate, and what the lineage says to each step. */
function play({ provisioned = false, lifetime = LIFETIME } = {}) {
  let made = 0
  let now = T0
  const make = (key: string): SignedLeaf => ({
    serial: `serial-${made}`,
    publicKeyHash: key,
    spiffeId: 'spiffe://rootpilot/tenant/acme/runner',
    notBefore: epochSeconds(now - 60),
    notAfter: epochSeconds(now + LIFETIME),
    issuer: 'issuer',
    der: Uint8Array.of(made++),
  })
  const first = { ...make('key-0'), notAfter: epochSeconds(T0 + lifetime) }
  const { der: _, ...unsigned } = first
  let lineage: Lineage = startLineage(provisioned ? unsigned : first, provisioned)
  let ended = false
  return {
    first,
    pass: (seconds: number) => {
      now += seconds
    },
    /** The certificate that comes back, or the verdict that refuses. */
    renew(presented: SignedLeaf, key = `key-${made}`, changed: Partial<SignedLeaf> = {}): SignedLeaf | string {
      if (ended) return 'ended'
      const verdict = renewalVerdict(lineage, presented, { ...make(key), ...changed }, epochSeconds(now))
      if (verdict.verdict === 'clone') ended = true
      if (!('next' in verdict)) return verdict.verdict
      lineage = verdict.next
      return lineage.tip as SignedLeaf
    },
    connect(presented: SignedLeaf): string {
      if (ended) return 'ended'
      const verdict = connectionVerdict(lineage, presented, epochSeconds(now))
      if (verdict.verdict === 'clone') ended = true
      if (verdict.verdict === 'accept') lineage = verdict.next
      // Its hello comes.
      if (verdict.verdict === 'anew') lineage = startAnew(lineage, presented, epochSeconds(now))
      return verdict.verdict
    },
    state: () => JSON.stringify(lineage),
  }
}

const certificate = (answer: SignedLeaf | string): SignedLeaf => {
  if (typeof answer === 'string') throw new Error(`refused: ${answer}`)
  return answer
}

test('a runner renews and connects, over and over', () => {
  const game = play()
  let mine = game.first
  for (let round = 0; round < 50; round++) {
    expect(game.connect(mine)).toBe('accept')
    game.pass(600)
    mine = certificate(game.renew(mine))
  }
})

test('a runner that renews without ever connecting goes on too', () => {
  const game = play()
  let mine = game.first
  for (let round = 0; round < 50; round++) mine = certificate(game.renew(mine))
})

test('a lost answer is asked for again with the same key, and is the same certificate', () => {
  const game = play()
  const lost = certificate(game.renew(game.first, 'new key'))
  expect(game.renew(game.first, 'new key')).toBe(lost)
  expect(game.connect(lost)).toBe('accept')
})

test('any number of lost answers, each with a key of its own, lock nobody out', () => {
  const game = play()
  expect(game.connect(game.first)).toBe('accept')
  let mine = game.first
  for (let lost = 0; lost < 5; lost++) mine = certificate(game.renew(game.first))
  expect(game.connect(mine)).toBe('accept')
  expect(game.renew(mine)).toMatchObject({ serial: expect.any(String) })
})

test('while its answer is lost, a runner may still connect with what it has', () => {
  const game = play()
  game.renew(game.first)
  expect(game.connect(game.first)).toBe('accept')
})

test('a renewal that arrives twice, the second time after the tip was used, is no evidence of a clone', () => {
  const game = play()
  const second = certificate(game.renew(game.first, 'key-a'))
  expect(game.connect(second)).toBe('accept')
  expect(game.renew(game.first, 'key-a')).toBe(second)
  const third = certificate(game.renew(second, 'key-b'))
  expect(game.renew(game.first, 'key-a')).toBe('superseded')
  expect(game.connect(third)).toBe('accept')
})

test('every renewal of the past comes again, at any time, and changes nothing', () => {
  const game = play()
  const requests: [SignedLeaf, string][] = []
  let mine = game.first
  const renew = (key: string) => {
    requests.push([mine, key])
    return certificate(game.renew(mine, key))
  }
  for (let round = 0; round < 12; round++) {
    // An answer is lost now and then, and the runner asks with another key after a restart.
    if (round % 3 === 0) renew(`lost-${round}`)
    mine = renew(`got-${round}`)
    if (round % 2 === 0) game.connect(mine)
    game.pass(100)
    const before = game.state()
    for (const [presented, key] of requests.slice(0, -1)) expect(game.renew(presented, key)).toBe('superseded')
    expect(game.state()).toBe(before)
  }
  expect(game.connect(mine)).toBe('accept')
})

test('a request that comes again late gives a newer certificate for the same key, and the one before stays good', () => {
  const game = play()
  const second = certificate(game.renew(game.first, 'key-a'))
  for (const pass of [LIFETIME / 2, LIFETIME / 2]) {
    game.pass(pass)
    expect(certificate(game.renew(game.first, 'key-a')).serial).not.toBe(second.serial)
  }
  const third = certificate(game.renew(second, 'key-b'))
  expect(game.connect(third)).toBe('accept')
})

test('as many renewals are remembered as there is room for, the newest', () => {
  const game = play()
  const requests: [SignedLeaf, string][] = []
  let mine = game.first
  for (let i = 0; i <= GRANTS_KEPT; i++) {
    requests.push([mine, `key-of-${i}`])
    mine = certificate(game.renew(mine, `key-of-${i}`))
  }
  const [forgotten, ...remembered] = requests
  for (const [presented, key] of remembered.slice(0, -1)) expect(game.renew(presented, key)).toBe('superseded')
  expect(game.renew(...(forgotten as [SignedLeaf, string]))).toBe('clone')
})

test('a renewal is remembered for as long as its certificate may be renewed, and a minute', () => {
  const game = play({ lifetime: 100 })
  let mine = certificate(game.renew(game.first, 'key-a'))
  mine = certificate(game.renew(mine))
  game.pass(100 + 360 + 60)
  mine = certificate(game.renew(mine))
  expect(game.renew(game.first, 'key-a')).toBe('superseded')
  game.pass(1)
  mine = certificate(game.renew(mine))
  expect(JSON.parse(game.state()).grants).toHaveLength(3)
})

describe('a provisioned certificate', () => {
  const DAYS_90 = 90 * 24 * 3600
  const deployed = () => play({ provisioned: true, lifetime: DAYS_90 })

  test('starts the lineage anew after each restart, whatever the runner did before', () => {
    const game = deployed()
    for (let boot = 0; boot < 100; boot++) {
      expect(game.connect(game.first)).toMatch(boot === 0 ? 'accept' : 'anew')
      let mine = certificate(game.renew(game.first))
      expect(game.connect(mine)).toBe('accept')
      if (boot % 2 === 0) mine = certificate(game.renew(mine))
      game.pass(boot % 3 === 0 ? 1 : 4000)
    }
  })

  test('starts it anew with a renewal, too', () => {
    const game = deployed()
    for (let boot = 0; boot < GRANTS_KEPT / 2; boot++) {
      const mine = certificate(game.renew(game.first))
      expect(game.connect(certificate(game.renew(mine)))).toBe('accept')
    }
  })

  test('so the certificates of the lineage before are clones', () => {
    for (const use of ['renew', 'connect'] as const) {
      const game = deployed()
      const before = certificate(game.renew(game.first))
      game.connect(before)
      game.connect(game.first)
      expect(game[use](before)).toBe('clone')
    }
  })

  test('and their old renewal requests are not', () => {
    const game = deployed()
    const before = certificate(game.renew(game.first, 'key-a'))
    game.renew(before, 'key-b')
    game.connect(game.first)
    const after = certificate(game.renew(game.first, 'key-c'))
    game.connect(after)
    game.pass(500)
    expect(game.renew(game.first, 'key-a')).toBe('superseded')
    expect(game.renew(before, 'key-b')).toBe('superseded')
    expect(game.connect(after)).toBe('accept')
  })

  test('starts nothing anew with a renewal that may be a forgotten one, before it has connected', () => {
    const game = deployed()
    let mine = certificate(game.renew(game.first, 'key-of-old'))
    for (let i = 0; i <= GRANTS_KEPT; i++) mine = certificate(game.renew(mine))
    const before = game.state()
    expect(game.renew(game.first, 'key-of-old')).toBe('superseded')
    expect(game.state()).toBe(before)
    expect(game.connect(game.first)).toBe('anew')
    expect(game.renew(game.first)).toMatchObject({ serial: expect.any(String) })
  })

  test('keeps its key and gets on', () => {
    const game = deployed()
    const second = certificate(game.renew(game.first, 'key-0'))
    expect(game.connect(second)).toBe('accept')
    expect(game.renew(game.first, 'key-0')).toBe(second)
    game.pass(LIFETIME)
    expect(certificate(game.renew(game.first, 'key-0')).serial).not.toBe(second.serial)
    expect(game.connect(second)).toBe('accept')
  })
})

test('a repeated renewal whose certificate has under half its life left is refused, and is no evidence of a clone', () => {
  const game = play()
  const second = certificate(game.renew(game.first, 'key-a'))
  game.connect(second)
  game.pass(LIFETIME / 2)
  expect(game.renew(game.first, 'key-a')).toBe('superseded')
  expect(game.connect(second)).toBe('accept')
})

test('a lost answer that is asked for late gives a fresh certificate for the same key', () => {
  const game = play()
  const lost = certificate(game.renew(game.first, 'key-a'))
  game.pass(LIFETIME / 2)
  const again = certificate(game.renew(game.first, 'key-a'))
  expect(again.serial).not.toBe(lost.serial)
  expect(game.connect(again)).toBe('accept')
})

test('at exactly half it is too late: with half its life left a certificate is not given out again', () => {
  const game = play()
  const lost = certificate(game.renew(game.first, 'key-a'))
  const life = LIFETIME + 60
  game.pass(LIFETIME - life / 2 - 1)
  expect(game.renew(game.first, 'key-a')).toBe(lost)
  game.pass(1)
  expect(certificate(game.renew(game.first, 'key-a')).serial).not.toBe(lost.serial)
})

test.each(['issuer', 'spiffeId'] as const)(
  'a certificate that would be signed otherwise today is not signed again: %s',
  (field) => {
    const game = play()
    const lost = certificate(game.renew(game.first, 'key-a'))
    const again = certificate(game.renew(game.first, 'key-a', { [field]: 'changed' }))
    expect(again.serial).not.toBe(lost.serial)
    expect(again[field as keyof SignedLeaf]).toBe('changed')
  },
)

test('a runner that keeps its key renews, and early gets the certificate that it has', () => {
  const game = play()
  expect(game.renew(game.first, 'key-0')).toMatchObject(game.first)
  game.pass(600)
  const second = certificate(game.renew(game.first, 'key-0'))
  expect(second.serial).not.toBe(game.first.serial)
})

test('the parent’s connection may cross the tip’s first use for 60 seconds, and is a clone from then on', () => {
  const early = play()
  early.connect(certificate(early.renew(early.first)))
  early.pass(60)
  expect(early.connect(early.first)).toBe('late')
  const late = play()
  late.connect(certificate(late.renew(late.first)))
  late.pass(61)
  expect(late.connect(late.first)).toBe('clone')
})

test('the 60 seconds are for connections alone: a renewal with the parent after the tip’s use is a clone', () => {
  const game = play()
  game.connect(certificate(game.renew(game.first)))
  expect(game.renew(game.first)).toBe('clone')
})

// A thief holds the certificate and key that the owner had; `owner` and `thief` each present the newest they have.
type Step = 'owner renews' | 'owner connects' | 'thief renews' | 'thief connects'

function steal(steps: readonly Step[], pause: number): string[] {
  const game = play()
  game.connect(game.first)
  const holds: Record<string, SignedLeaf> = { owner: game.first, thief: game.first }
  return steps.map((step) => {
    game.pass(pause)
    const who = step.slice(0, 5)
    const mine = holds[who] as SignedLeaf
    if (step.endsWith('connects')) return game.connect(mine)
    const answer = game.renew(mine)
    if (typeof answer === 'string') return answer
    holds[who] = answer
    return 'renewed'
  })
}

test.each<[string, Step[], string]>([
  ['owner ahead, thief renews the old', ['owner renews', 'owner connects', 'thief renews'], 'clone'],
  ['owner ahead, thief connects the old', ['owner renews', 'owner connects', 'thief connects'], 'clone'],
  ['owner renewed twice, thief renews the old', ['owner renews', 'owner renews', 'thief renews'], 'clone'],
  ['owner renewed twice, thief connects the old', ['owner renews', 'owner renews', 'thief connects'], 'clone'],
  ['thief ahead, owner renews', ['thief renews', 'thief connects', 'owner renews'], 'clone'],
  ['thief ahead, owner connects', ['thief renews', 'thief connects', 'owner connects'], 'clone'],
  ['thief renewed twice, owner renews', ['thief renews', 'thief renews', 'owner renews'], 'clone'],
  ['thief renewed twice, owner connects', ['thief renews', 'thief renews', 'owner connects'], 'clone'],
  ['both renewed, thief first, thief uses its own', ['thief renews', 'owner renews', 'thief connects'], 'clone'],
  ['both renewed, thief first, thief renews its own', ['thief renews', 'owner renews', 'thief renews'], 'clone'],
  ['both renewed, owner first, owner uses its own', ['owner renews', 'thief renews', 'owner connects'], 'clone'],
  ['both renewed, owner first, owner renews its own', ['owner renews', 'thief renews', 'owner renews'], 'clone'],
  [
    'both renewed, thief first, owner goes on, then thief',
    ['thief renews', 'owner renews', 'owner connects', 'thief connects'],
    'clone',
  ],
  [
    'both renewed, owner first, thief goes on, then owner',
    ['owner renews', 'thief renews', 'thief connects', 'owner renews'],
    'clone',
  ],
])('%s', (_, steps, last) => {
  expect(steal(steps, 61).at(-1)).toBe(last)
})

test('in every order of thief and owner, at most one of them ever uses a certificate made after the theft', () => {
  const all: Step[] = ['owner renews', 'owner connects', 'thief renews', 'thief connects']
  const orders = (length: number): Step[][] =>
    length === 0 ? [[]] : orders(length - 1).flatMap((order) => all.map((step) => [...order, step]))
  let caught = 0
  for (const order of orders(6)) {
    const outcomes = steal(order, 61)
    const renewed = { owner: 0, thief: 0 }
    const wentOn = new Set<string>()
    order.forEach((step, i) => {
      const who = step.startsWith('owner') ? 'owner' : 'thief'
      const granted = outcomes[i] === 'renewed' || outcomes[i] === 'accept'
      if (granted && renewed[who] > 0) wentOn.add(who)
      if (outcomes[i] === 'renewed') renewed[who]++
      // Once one of them has gone on, whatever the other shows ends the enrollment.
      if (granted && wentOn.size === 1 && !wentOn.has(who)) throw new Error(`${order.slice(0, i + 1)}: ${outcomes}`)
    })
    expect(wentOn.size, String(order)).toBeLessThan(2)
    if (outcomes.includes('clone')) caught++
  }
  expect(caught).toBeGreaterThan(1000)
})

test('a thief that renews with the stolen key itself is detected as well', () => {
  const game = play()
  const second = certificate(game.renew(game.first, 'key-0', {}))
  game.pass(600)
  expect(second).toMatchObject(game.first)
  const third = certificate(game.renew(game.first, 'key-0'))
  game.connect(third)
  expect(game.renew(game.first, 'key-0')).toBe('clone')
})
