// Checks --mount: what a runner shares with its jobs must not hold the runner's credentials.

import { readlinkSync, realpathSync } from 'node:fs'
import { dirname, isAbsolute, join, resolve, sep } from 'node:path'
import { pathMistake } from './paths.ts'

/** A folder or file that jobs must not see, and what it is. */
export interface Guarded {
  readonly what: string
  readonly path: string
}

/** One line for each mount that cannot be read, or that is, holds or lies under something guarded. */
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
 * The host path of `SRC[:DST[:OPTIONS]]`. Null for whatever else container engines take there (Docker's long form, a
 * named volume, a path of Windows): whether that shows a credential is not known here.
 */
function sourceOf(mount: string): string | null {
  const [source = '', target, options, ...rest] = mount.split(':')
  const isPath = source.startsWith('/') || source.startsWith('./')
  const isMount = (target === undefined || target.startsWith('/')) && options !== '' && rest.length === 0
  return isPath && isMount && !source.includes('\0') ? source : null
}

/** The folder of a file as it is named, and the one that a link leads to; none for an empty path. */
export const foldersOf = (what: string, file: string): Guarded[] =>
  file === '' ? [] : spellings(file).map((path) => ({ what, path: dirname(path) }))

const overlap = (a: string, b: string): boolean => within(a, b) || within(b, a)

const within = (inner: string, outer: string): boolean =>
  inner === outer || inner.startsWith(outer.endsWith(sep) ? outer : outer + sep)

/** As it is written, and as the system resolves it: there `link/..` is beside what the link leads to. */
const spellings = (path: string): string[] => [resolve(path), resolved(resolve(path)), resolved(path)]

/** Links in a circle end somewhere. */
const MOST_LINKS = 40

/** With its links resolved, those that lead nowhere yet too; what is not there stays as it is written. */
function resolved(path: string, links = MOST_LINKS): string {
  const names = (isAbsolute(path) ? path : `${process.cwd()}${sep}${path}`).split(sep)
  return names.reduce((folder, name) => (name === '..' ? dirname(folder) : real(join(folder, name), links)), sep)
}

function real(path: string, links: number): string {
  try {
    return realpathSync(path)
  } catch {
    const target = linkTarget(path)
    return target === null || links === 0 ? path : resolved(resolve(dirname(path), target), links - 1)
  }
}

function linkTarget(path: string): string | null {
  try {
    return readlinkSync(path)
  } catch {
    return null
  }
}
