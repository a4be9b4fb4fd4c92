// Checks --mount: what a runner shares with its jobs must not hold the runner's credentials.

import { realpathSync } from 'node:fs'
import { dirname, join, resolve, sep } from 'node:path'

/** A folder or file that jobs must not see, and what it is. */
export interface Guarded {
  readonly what: string
  readonly path: string
}

/** One line for each `SRC[:DST]` that is, holds or lies under a guarded folder. */
export function mountMistakes(mounts: readonly string[], guarded: readonly Guarded[]): string[] {
  return mounts.flatMap((mount) => {
    const source = mount.split(':', 1)[0] ?? ''
    if (source === '') return [`--mount ${JSON.stringify(mount)} has no host path: SRC or SRC:DST`]
    const met = guarded.find(({ path }) => spellings(path).some((a) => spellings(source).some((b) => overlap(a, b))))
    return met === undefined
      ? []
      : [`--mount ${JSON.stringify(source)} is refused: it is, holds or lies under ${met.what} (${met.path})`]
  })
}

/** The folder of a file as it is named, and the one that a link leads to; none for an empty path. */
export const foldersOf = (what: string, file: string): Guarded[] =>
  file === '' ? [] : spellings(file).map((path) => ({ what, path: dirname(path) }))

const overlap = (a: string, b: string): boolean => within(a, b) || within(b, a)

const within = (inner: string, outer: string): boolean =>
  inner === outer || inner.startsWith(outer.endsWith(sep) ? outer : outer + sep)

/** As it is written, and with its symbolic links resolved. */
const spellings = (path: string): string[] => [resolve(path), real(resolve(path))]

/** The part of the path that exists, resolved, and the rest as it is written. */
function real(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    const parent = dirname(path)
    return parent === path ? path : join(real(parent), path.slice(parent.length))
  }
}
