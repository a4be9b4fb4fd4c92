// Names the state that a command acts on, for its messages: the local folder, or the deployed database.

import { resolve } from 'node:path'
import { bindingOf } from '../../trust/shards.ts'
import { environmentOf, readProject } from '../edge/project.ts'
import type { SharedOptions } from '../operator/command.ts'

/**
 * As in `the local state /srv/muster/.wrangler/state`, `the deployed database muster (0f3c…)` or, where there are several,
 * `the deployed databases muster (0f3c…), muster-1 (7d20…)`. `shard`: the one that the command acts on; null: on all.
 */
export async function stateName(
  { remote, env, persistTo }: SharedOptions,
  shard: number | null = null,
): Promise<string> {
  const environment = environmentOf(env)
  const within = environment === null ? '' : `, environment ${environment}`
  if (!remote) return `the local state ${resolve(persistTo)}${within}${shard ? `, database ${bindingOf(shard)}` : ''}`
  const { databases } = await readProject(env)
  const names = databases
    .filter((database) => shard === null || shard === database.shard)
    .map(({ shard, name, id }) => `${name ?? bindingOf(shard)} (${id ?? 'of no id'})`)
  return `the deployed database${names.length === 1 ? '' : 's'} ${names.join(', ')}${within}`
}

/** How the other states are named, for whoever looked in the wrong one. */
export const otherStates = ({ remote }: SharedOptions): string =>
  remote
    ? 'without --remote it is the local state'
    : '--remote names the deployed Muster, --persist-to and --env another local state'
