// Tests which paths and methods the control plane serves, and that it serves no others.
import { createExecutionContext, env, waitOnExecutionContext } from 'cloudflare:test'
import { expect, test } from 'vitest'
import { compose } from '../../../src/worker/compose.ts'
import type { Env } from '../../../src/worker/env.ts'
import { trustWith } from '../../fakes/trust.ts'

const muster = compose(trustWith())

async function answerTo(method: string, path: string): Promise<Response> {
  const context = createExecutionContext()
  const request = new Request(`https://muster.example.com${path}`, { method })
  const response = await muster.fetch(request, env as unknown as Env, context)
  await waitOnExecutionContext(context)
  return response
}

const statusOf = async (method: string, path: string) => (await answerTo(method, path)).status

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
  ['GET', '/healthz/'],
  ['GET', '//healthz'],
  ['GET', '/Healthz'],
  ['GET', '/health%7A/x'],
  ['POST', '/api/enroll/'],
  ['POST', '/api//enroll'],
  ['POST', '/api/enroll/x'],
  ['GET', '/api/tunnel/'],
  ['GET', '/api/bundleXpem'],
  ['GET', '/api/bundle.pem/'],
  ['GET', '/api/*'],
  ['GET', '/*'],
  ['GET', '/api'],
])('%s %s is not', async (method, path) => {
  expect(await statusOf(method, path)).toBe(404)
})

test.each([
  ['POST', '/', 'GET, HEAD'],
  ['OPTIONS', '/healthz', 'GET, HEAD'],
  ['DELETE', '/readyz', 'GET, HEAD'],
  ['PUT', '/api/enroll', 'POST'],
  ['GET', '/api/enroll', 'POST'],
  ['HEAD', '/api/enroll', 'POST'],
  ['OPTIONS', '/api/enroll', 'POST'],
  ['GET', '/api/enroll?query', 'POST'],
  ['POST', '/api/tunnel', 'GET'],
  ['GET', '/api/tunnel/challenge', 'POST'],
  ['POST', '/api/bundle', 'GET, HEAD'],
  ['PATCH', '/api/bundle.pem', 'GET, HEAD'],
  ['GET', '/muster.runner.v1.RunnerService/Enroll', 'POST'],
])('%s %s is 405, and the answer says that the path takes %s', async (method, path, allow) => {
  const response = await answerTo(method, path)
  expect([response.status, response.headers.get('allow')]).toEqual([405, allow])
  if (method === 'HEAD') return
  expect(response.headers.get('content-type')).toBe('application/problem+json')
  expect(await response.json()).toMatchObject({ status: 405, code: 'method_not_allowed' })
})
