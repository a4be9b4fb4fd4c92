// Checks the paths that an operator gives.

import { readlinkSync, realpathSync } from 'node:fs'
import { basename, dirname, isAbsolute, join, resolve } from 'node:path'
import { looksLikeToken } from '../../protocol/tokens.ts'

/** What is wrong with the path of the variable or option `name`, or null. Quotes nothing of it. */
export function pathMistake(name: string, path: string): string | null {
  // A later message would name the file that is missing.
  if (looksLikeToken(path)) return `${name} holds a token: write the path of the file that it is in`
  if (path.startsWith('~')) return `${name} begins with "~", which only a shell expands: write the whole path`
  if (path.includes('$')) return `${name} holds a "$", which nothing expanded: write the whole path`
  return null
}

/** Of a folder: a relative one would be another one for each working directory. */
export const folderMistake = (name: string, path: string): string | null =>
  pathMistake(name, path) ?? (isAbsolute(path) ? null : `${name} must be an absolute path`)

/** The kernel's own: what is made there is no file, and calls there may never return. */
const KERNEL = ['/proc', '/sys', '/dev']

/** Of a folder that files are kept in. */
export function stateFolderMistake(name: string, path: string): string | null {
  const mistake = folderMistake(name, path)
  if (mistake !== null) return mistake
  const places = [resolve(path), resolved(resolve(path))]
  const kernel = KERNEL.find((folder) => places.some((place) => place === folder || place.startsWith(`${folder}/`)))
  return kernel === undefined ? null : `${name} is under ${kernel}, where no file lasts: name another folder`
}

/** As many as Linux follows in one path. */
const MAX_LINKS = 40

/** Where a path leads, its symbolic links resolved, even those that lead to nothing. */
function resolved(path: string, links = MAX_LINKS): string {
  try {
    return realpathSync(path)
  } catch {
    const parent = dirname(path)
    if (parent === path) return path
    const target = links === 0 ? null : targetOf(path)
    const folder = resolved(parent, links)
    return target === null ? join(folder, basename(path)) : resolved(resolve(folder, target), links - 1)
  }
}

function targetOf(path: string): string | null {
  try {
    return readlinkSync(path)
  } catch {
    return null
  }
}
