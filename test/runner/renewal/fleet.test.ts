// Tests what the renewals of a whole fleet do to the control plane: in an outage, after it, and after a restart. Virtual
// time, a fixed seed, and the runner's own schedule.

import { describe, expect, test } from 'vitest'
import { outageFigures, restartFigures } from '../../../bench/fleet-figures.ts'
import { milliseconds } from '../../../src/protocol/time.ts'

const RUNNERS = 50_000
const SEED = 1

describe.each([
  ['without an answer', null],
  ['of answers with Retry-After: 5', milliseconds(5000)],
])('ten minutes %s', (_name, retryAfter) => {
  const figures = outageFigures(RUNNERS, retryAfter, SEED)

  test('cost no runner its enrollment', () => {
    expect(figures.lost).toBe(0)
  })

  test('are caught up within five and a half minutes, without a peak', () => {
    expect(figures.catchingUp.seconds).toBeLessThanOrEqual(330)
    expect(figures.catchingUp.peakOverMean).toBeLessThanOrEqual(1.3)
    expect(figures.catchingUp.peakOverSteady).toBeLessThanOrEqual(3.2)
  })

  test('leave the fleet as spread out as it was', () => {
    expect(figures.steady.peakOverMean).toBeLessThanOrEqual(1.3)
    expect(figures.afterwards.peakOverMean).toBeLessThanOrEqual(1.3)
  })

  test('make each runner try about five times', () => {
    expect(figures.triesOverSteady.mean).toBeLessThanOrEqual(5)
    expect(figures.triesOverSteady.peak).toBeLessThanOrEqual(6.5)
  })
})

test('after a restart of all runners within ten seconds their renewals spread out from one interval to the next', () => {
  const { peakOverMean } = restartFigures(RUNNERS, SEED)
  expect(peakOverMean[0]).toBeLessThanOrEqual(6.8)
  for (const [i, peak] of peakOverMean.entries()) {
    if (i > 0) expect(peak).toBeLessThan(peakOverMean[i - 1] ?? 0)
  }
  expect(peakOverMean.at(-1)).toBeLessThanOrEqual(3.3)
})
