// Tests which paths and methods the control plane serves, and that it serves no others.
import { createExecutionContext, env, waitOnExecutionContext } from 'cloudflare:test'
import { expect, test } from 'vitest'
import { compose } from '../../../src/worker/compose.ts'
import type { Env } from '../../../src/worker/env.ts'
import { trustWith } from '../../fakes/trust.ts'

const muster = compose(trustWith())

async function statusOf(method: string, path: string): Promise<number> {
  const context = createExecutionContext()
  const request = new Request(`https://muster.example.com${path}`, { method })
  const response = await muster.fetch(request, env as unknown as Env, context)
  await waitOnExecutionContext(context)
  return response.status
}

test.each([
  ['GET', '/', 200],
  ['GET', '/?query', 200],
  ['GET', '/healthz', 200],
  ['HEAD', '/healthz', 200],
  ['GET', '/healthz?query=1', 200],
  ['POST', '/api/enroll', 415],
  ['POST', '/api/enroll?query', 415],
  ['GET', '/api/tunnel', 400],
  ['GET', '/api/bundle', 503],
  ['GET', '/api/bundle.pem', 503],
  ['POST', '/api/tunnel/challenge', 503],
])('%s %s is served: %i', async (method, path, status) => {
  expect(await statusOf(method, path)).toBe(status)
})

test.each([
  ['POST', '/'],
  ['OPTIONS', '/healthz'],
  ['PUT', '/api/enroll'],
  ['GET', '/api/enroll'],
  ['GET', '/healthz/'],
  ['GET', '//healthz'],
  ['GET', '/Healthz'],
  ['GET', '/health%7A/x'],
  ['POST', '/api/enroll/'],
  ['POST', '/api//enroll'],
  ['POST', '/api/enroll/x'],
  ['POST', '/api/tunnel'],
  ['GET', '/api/tunnel/'],
  ['GET', '/api/tunnel/challenge'],
  ['GET', '/api/bundleXpem'],
  ['GET', '/api/bundle.pem/'],
  ['GET', '/api/*'],
  ['GET', '/*'],
  ['GET', '/api'],
])('%s %s is not', async (method, path) => {
  expect(await statusOf(method, path)).toBe(404)
})
