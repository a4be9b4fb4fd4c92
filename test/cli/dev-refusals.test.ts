// Tests that `muster dev` refuses to start on a taken port or with a broken trust file.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { runMuster, spawnMuster } from '../end-to-end/muster.ts'

const scratch = mkdtempSync(join(tmpdir(), 'muster-dev-'))
afterAll(() => rmSync(scratch, { recursive: true }))

test('a port that is taken is named in one line', async () => {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  const args = ['--port', '0', '--tls-port', String(port), '--persist-to', join(scratch, 'taken')]
  const { code, stderr } = await spawnMuster(['dev', ...args])
  server.close()
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr: `muster: port ${port} is taken; choose another with --tls-port (0: any)\n`,
  })
})

test('a broken trust file stops it with every mistake named', async () => {
  const trust = join(scratch, 'trust.yaml')
  writeFileSync(trust, 'tenants:\n  - slug: A_B\nnonsense: 1\n')
  const { code, stderr, stdout } = await spawnMuster(['dev', '--trust', trust, '--port', '0', '--tls-port', '0'])
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toContain(`${trust}:2:11: `)
  expect(stderr).toContain(`${trust}:3:1: `)
})

test('a tenant in a database that is not bound stops it, with the binding named', async () => {
  const trust = join(scratch, 'unbound.yaml')
  writeFileSync(trust, 'tenants:\n  - slug: acme\n    shard: 2\n')
  const where = ['--persist-to', join(scratch, 'unbound'), '--port', '0', '--tls-port', '0']
  expect(await spawnMuster(['dev', '--trust', trust, ...where])).toMatchObject({
    code: 1,
    stdout: '',
    stderr:
      'muster: the tenant acme is in the database DB_2, which wrangler.toml does not bind: see muster trust check\n',
  })
})

test.each([
  [['--port', '65536'], '"65536"'],
  [['--var', 'novalue'], '"novalue"'],
  [['--outbound', 'sts.example'], '"sts.example"'],
  [['--outbound', 'sts.example:443=http://127.0.0.1:1'], 'write sts.example=…'],
  [['--outbound', 'sts.example=http://127.0.0.1:1/path'], '"http://127.0.0.1:1/path"'],
  [['--outbound', 'https://sts.example=http://127.0.0.1:1'], '"https://sts.example=http://127.0.0.1:1"'],
  [['--env', 'nowhere', '--port', '0', '--tls-port', '0', '--persist-to', join(scratch, 'env')], '"nowhere"'],
])('%j is refused in one line that names the value', async (args, value) => {
  // The last one gets further than the parser, so it is a process: `dev` takes the signals of the one that it is in.
  const { code, stderr } = await (args.includes('--env') ? spawnMuster : runMuster)(['dev', ...args])
  expect(code).toBe(1)
  expect(stderr.trimEnd().split('\n')).toHaveLength(1)
  expect(stderr).toContain(value)
})
