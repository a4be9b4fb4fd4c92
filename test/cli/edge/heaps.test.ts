// Tests that the local edge bounds the heaps of workerd's isolates, and leaves V8 flags that somebody gave.
import { expect, test } from 'vitest'
import { startEdge } from '../../end-to-end/edge.ts'

test('workerd starts with bounds for its heaps before the flags that were there', async () => {
  const before = process.env.MINIFLARE_WORKERD_V8_FLAGS
  process.env.MINIFLARE_WORKERD_V8_FLAGS = '--stack-size=900'
  try {
    const edges = [await startEdge(), await startEdge()]
    for (const edge of edges) await edge.stop()
    expect(process.env.MINIFLARE_WORKERD_V8_FLAGS).toBe(
      '--max-semi-space-size=2 --initial-old-space-size=4 --stack-size=900',
    )
  } finally {
    if (before === undefined) delete process.env.MINIFLARE_WORKERD_V8_FLAGS
    else process.env.MINIFLARE_WORKERD_V8_FLAGS = before
  }
})
