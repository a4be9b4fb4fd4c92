// Checks --mount: what a runner shares with its jobs must not hold the runner's credentials.

import { dirname, resolve, sep } from 'node:path'
import { followed, pathMistake } from './paths.ts'

/** A folder or file that jobs must not see, and what it is. */
export interface Guarded {
  readonly what: string
  readonly path: string
}

/** One line for each mount that has another form, or that is, contains or lies under something guarded. */
export function mountMistakes(mounts: readonly string[], guarded: readonly Guarded[]): string[] {
  const kept = guarded.map(({ what, path }) => ({ what, path, spellings: spellings(path) }))
  return mounts.flatMap((mount) => {
    const source = sourceOf(mount)
    if (source === null) {
      return [`--mount ${JSON.stringify(mount)} is not SRC[:DST[:OPTIONS]] with an SRC that begins with / or ./`]
    }
    const unexpanded = pathMistake('--mount', source)
    if (unexpanded !== null) return [unexpanded]
    const sources = spellings(source)
    const met = kept.find((one) => one.spellings.some((a) => sources.some((b) => overlap(a, b))))
    return met === undefined
      ? []
      : [`--mount ${JSON.stringify(source)} is refused: it is, holds or lies under ${met.what} (${met.path})`]
  })
}

/**
 * The host path of `SRC[:DST[:OPTIONS]]`. Null for other forms that container engines accept (Docker's long form, a
 * named volume, a path of Windows), since it cannot be told whether they show a credential.
 */
function sourceOf(mount: string): string | null {
  const [source = '', target, options, ...rest] = mount.split(':')
  const isPath = source.startsWith('/') || source.startsWith('./')
  const isMount = (target === undefined || target.startsWith('/')) && options !== '' && rest.length === 0
  return isPath && isMount && !source.includes('\0') ? source : null
}

/** The folder of a file, and the folder of what it links to; none for an empty path. */
export const foldersOf = (what: string, file: string): Guarded[] =>
  file === '' ? [] : spellings(file).map((path) => ({ what, path: dirname(path) }))

const overlap = (a: string, b: string): boolean => within(a, b) || within(b, a)

const within = (inner: string, outer: string): boolean =>
  inner === outer || inner.startsWith(outer.endsWith(sep) ? outer : outer + sep)

/** The path as written, and where it leads. `link/..` may mean the folder of the link or that of its target. */
const spellings = (path: string): string[] => [resolve(path), followed(resolve(path)), followed(path)]
