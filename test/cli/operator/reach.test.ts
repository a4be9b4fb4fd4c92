// Tests that commands reach a Muster and Cloudflare's API through the operator's proxy.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { createCa } from '../../../src/cli/ca/create.ts'
import { queryD1 } from '../../../src/cli/store/remote.ts'
import { epochSeconds } from '../../../src/protocol/time.ts'
import { spawnMuster } from '../../end-to-end/muster.ts'
import { ForwardProxy, selfSigned } from '../../fakes/forward-proxy.ts'

const scratch = mkdtempSync(join(tmpdir(), 'muster-reach-'))
const roots = join(scratch, 'roots.pem')
let server: Server
let proxy: ForwardProxy

beforeAll(async () => {
  const { root } = await createCa({ development: true, now: epochSeconds(Math.floor(Date.now() / 1000)) })
  const tls = await selfSigned({ type: 'dns', value: 'far.test' })
  writeFileSync(roots, tls.cert)
  server = createServer(tls, (request, response) => {
    if (request.url === '/api/bundle.pem') response.end(root)
    else response.writeHead(404).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
})
afterAll(() => {
  server.close()
  server.closeAllConnections()
  rmSync(scratch, { recursive: true })
})
beforeEach(async () => {
  proxy = await ForwardProxy.start((server.address() as AddressInfo).port)
})
afterEach(() => proxy.close())

const behind = (more: Readonly<Record<string, string>> = {}) => ({
  HTTPS_PROXY: `http://u:hush@127.0.0.1:${proxy.port}`,
  NODE_EXTRA_CA_CERTS: roots,
  ...more,
})
const show = (env: Readonly<Record<string, string>>) =>
  spawnMuster(['ca', 'show', '--url', 'https://far.test'], { env })

test('ca show asks through it', async () => {
  const result = await show(behind())
  expect(result).toMatchObject({ code: 0, stdout: expect.stringContaining('Muster Root') })
  expect(proxy.asked).toEqual(['far.test:443 u:hush'])
})

test('--remote asks through it', async () => {
  for (const [name, value] of Object.entries(behind())) vi.stubEnv(name, value)
  vi.stubEnv('CLOUDFLARE_API_BASE_URL', 'https://far.test/client/v4')
  // Node reads NODE_EXTRA_CA_CERTS at its start.
  const asking = queryD1({ authorization: 'Bearer t' }, 'account', 'database')('SELECT 1', [])
  await expect(asking).rejects.toThrow('the certificate of far.test is not from a CA that this machine trusts')
  expect(proxy.asked).toEqual(['far.test:443 u:hush'])
  vi.unstubAllEnvs()
})

test('the hop that fails is named, a password never', async () => {
  proxy.answer = (socket) => socket.end('HTTP/1.1 407 No\r\n\r\n')
  const refused = await show(behind())
  expect(refused.stderr).toMatch(
    /^muster: https:\/\/far\.test\/api\/bundle\.pem gives no trust bundle: far\.test: the proxy 127\.0\.0\.1:\d+ \(HTTPS_PROXY\) refused CONNECT with 407: /,
  )
  const none = await show({ ALL_PROXY: 'socks5://u:hush@proxy.test' })
  expect(none.stderr).toBe('muster: ALL_PROXY is not the URL of an HTTP proxy, such as http://proxy.example:3128\n')
  proxy.answer = null
  const untrusted = await show(behind({ NODE_EXTRA_CA_CERTS: '' }))
  expect(untrusted.stderr).toContain('if the CA is yours, set NODE_EXTRA_CA_CERTS to its certificate')
  for (const { code, stderr } of [refused, none, untrusted]) {
    expect(code).toBe(1)
    expect(stderr).not.toContain('hush')
  }
})
