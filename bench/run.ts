// `npm run bench`: what each kind of request costs, measured on a local edge: `-- [--json] [--full] [--profile] [kind…]`.

import { rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { Kind } from './kinds/kind.ts'
import { makeKinds } from './kinds/table.ts'
import { measure } from './measure.ts'
import { PROFILED, perfFault, profile } from './profile.ts'
import { startSite } from './site.ts'

const { values: options, positionals: named } = parseArgs({
  allowPositionals: true,
  options: {
    json: { type: 'boolean', default: false },
    full: { type: 'boolean', default: false },
    profile: { type: 'boolean', default: false },
    connections: { type: 'string', default: '8' },
    runs: { type: 'string', default: '5' },
  },
})
const connections = Number(options.connections)
const runs = Number(options.runs)

const ending = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => ending.abort())

const kinds = chosen(makeKinds(), named)
await (options.profile ? profileKinds() : measureKinds())

function chosen(all: readonly Kind[], names: readonly string[]): Kind[] {
  const unknown = names.filter((name) => !all.some((kind) => kind.name === name))
  if (unknown.length > 0) {
    console.error(`there is no kind ${unknown.join(', ')}: choose among ${all.map(({ name }) => name).join(', ')}`)
    process.exit(2)
  }
  return all.filter(({ name }) => names.length === 0 || names.includes(name))
}

function countOf({ requests }: Kind): number {
  return options.full ? requests.full : requests.quick
}

async function measureKinds(): Promise<void> {
  const site = await startSite({ ending: ending.signal })
  try {
    for (const kind of kinds) await kind.begin?.(site, countOf(kind) * (runs + 1))
    for (let run = 0; run <= runs; run++) {
      for (const kind of kinds) {
        ending.signal.throwIfAborted()
        const shots = await kind.prepare(site, countOf(kind))
        const { cpu, rate, p50, p99 } = await measure(site, shots, { connections, status: kind.status })
        const figures = `${cpu.toFixed(0)} µs  ${rate.toFixed(0)}/s  p50 ${p50.toFixed(1)}  p99 ${p99.toFixed(1)} ms`
        console.log(`${run === 0 ? 'warm-up' : `run ${run}`}  ${kind.name.padEnd(14)} ${figures}`)
      }
    }
  } finally {
    await site.stop()
  }
}

async function profileKinds(): Promise<void> {
  const fault = await perfFault()
  if (fault !== null) throw new Error(fault)
  Object.assign(process.env, PROFILED)
  for (const kind of named.length === 0 ? kinds.filter(({ name }) => name === 'enroll') : kinds) {
    const site = await startSite({ ending: ending.signal })
    const file = join(tmpdir(), `muster-bench-${process.pid}.perf`)
    try {
      const count = kind.requests.full
      await kind.begin?.(site, count * 2)
      const load = { connections, status: kind.status }
      await measure(site, await kind.prepare(site, count), load)
      const shots = await kind.prepare(site, count)
      const found = await profile(site.pid, file, async () => {
        await measure(site, shots, load)
      })
      console.log(`${kind.name}: ${found.samples} samples`)
      for (const part of ['phases', 'files', 'functions'] as const) {
        console.log(`  by ${part}`)
        for (const { name, share } of found[part].slice(0, 25))
          console.log(`    ${(share * 100).toFixed(1).padStart(5)} %  ${name}`)
      }
    } finally {
      await site.stop()
      for (const path of [file, join(tmpdir(), `perf-${site.pid}.map`)]) rmSync(path, { force: true })
    }
  }
}
