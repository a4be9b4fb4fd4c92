// Two projects: tests of the Worker run in workerd, those of the runner and the CLI in Node.
import { fileURLToPath } from 'node:url'
import { cloudflareTest, readD1Migrations } from '@cloudflare/vitest-plugin'
import { defineConfig } from 'vitest/config'

const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url))

export default defineConfig({
  test: {
    silent: 'passed-only',
    // Two cores, and many tests that wait: for processes that they started, or for a limit to pass.
    maxWorkers: 4,
    projects: [
      {
        root: path('..'),
        plugins: [
          cloudflareTest(async () => ({
            main: path('worker/main.ts'),
            wrangler: { configPath: path('../wrangler.toml') },
            miniflare: {
              bindings: { MIGRATIONS: await readD1Migrations(path('../migrations')) },
              // `DB_1` and `DB_2` of the tests with several shards; all others have one.
              d1Databases: { SHARD_1: 'shard-1', SHARD_2: 'shard-2' },
            },
          })),
        ],
        test: {
          name: 'worker',
          // A workerd and a Worker for each file took 116 s of CPU; shared, they take 40 s.
          isolate: false,
          include: ['test/{protocol,trust,worker}/**/*.test.ts', 'test/fakes/issuer.test.ts'],
          setupFiles: [path('worker/setup.ts')],
          testTimeout: 30_000,
          hookTimeout: 60_000,
        },
      },
      {
        root: path('..'),
        test: {
          name: 'node',
          // Files that share a process load the CLI, its libraries and Miniflare once.
          isolate: false,
          setupFiles: [path('node-setup.ts')],
          include: ['test/{cli,node,runner,end-to-end}/**/*.test.ts', 'test/fakes/sts.test.ts', 'test/house.test.ts'],
          // They wait for processes, and the machine may be busy with others.
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
    ],
  },
})
