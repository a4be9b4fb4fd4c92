// Names the state that a command acts on, for its messages: the local folder, or the deployed database.

import { resolve } from 'node:path'
import { environmentOf, readProject } from '../edge/project.ts'
import type { SharedOptions } from '../operator/command.ts'

/** As in `the local state /srv/muster/.wrangler/state` or `the deployed database muster (0f3c…)`. */
export async function stateName({ remote, env, persistTo }: SharedOptions): Promise<string> {
  const environment = environmentOf(env)
  const within = environment === null ? '' : `, environment ${environment}`
  if (!remote) return `the local state ${resolve(persistTo)}${within}`
  const { databaseName, databaseId } = (await readProject(env)).deployed
  return `the deployed database ${databaseName ?? 'DB'} (${databaseId ?? 'of no id'})${within}`
}

/** How the other states are named, for whoever looked in the wrong one. */
export const otherStates = ({ remote }: SharedOptions): string =>
  remote
    ? 'without --remote it is the local state'
    : '--remote names the deployed Muster, --persist-to and --env another local state'
