// Checks the paths that an operator gives, and follows their symbolic links.

import { readlinkSync, realpathSync } from 'node:fs'
import { dirname, isAbsolute, join, resolve, sep } from 'node:path'
import { looksLikeToken } from '../../protocol/tokens.ts'

/** What is wrong with the path of the variable or option `name`, or null. Quotes nothing of it. */
export function pathMistake(name: string, path: string): string | null {
  // A later message would name the file that is missing.
  if (looksLikeToken(path)) return `${name} holds a token: write the path of the file that it is in`
  if (path.startsWith('~')) return `${name} begins with "~", which only a shell expands: write the whole path`
  if (path.includes('$')) return `${name} holds a "$", which nothing expanded: write the whole path`
  return null
}

/** The same for a folder. It must be absolute: a relative one would depend on the working directory. */
export const folderMistake = (name: string, path: string): string | null =>
  pathMistake(name, path) ?? (isAbsolute(path) ? null : `${name} must be an absolute path`)

/** File systems of the kernel: nothing that is made there lasts, and calls there may never return. */
const KERNEL = ['/proc', '/sys', '/dev']

/** The same for a folder that files are kept in. */
export function stateFolderMistake(name: string, path: string): string | null {
  const mistake = folderMistake(name, path)
  if (mistake !== null) return mistake
  const places = [resolve(path), followed(resolve(path))]
  const kernel = KERNEL.find((folder) => places.some((place) => place === folder || place.startsWith(`${folder}/`)))
  return kernel === undefined ? null : `${name} is under ${kernel}, where no file lasts: name another folder`
}

/** As many links as Linux follows in one path, so that a circle of links ends. */
const MAX_LINKS = 40

/**
 * Where the system follows a path to. A link to something that does not exist yet is followed, too. The part of the path
 * that does not exist stays as it is written.
 */
export function followed(path: string, links = MAX_LINKS): string {
  const names = (isAbsolute(path) ? path : `${process.cwd()}${sep}${path}`).split(sep)
  return names.reduce((folder, name) => (name === '..' ? dirname(folder) : real(join(folder, name), links)), sep)
}

function real(path: string, links: number): string {
  try {
    return realpathSync(path)
  } catch {
    const target = linkTarget(path)
    return target === null || links === 0 ? path : followed(resolve(dirname(path), target), links - 1)
  }
}

function linkTarget(path: string): string | null {
  try {
    return readlinkSync(path)
  } catch {
    return null
  }
}
