// Knows which files the AWS SDK's chain reads, and reads what the shared config and credentials files say of a profile.

import { homedir } from 'node:os'
import { join } from 'node:path'
import { readRegularFile } from '../../node/bounded-file.ts'
import type { Guarded } from '../environment/mounts.ts'

/** Variables that each name a file or folder with credentials. */
export const AWS_FILE_VARIABLES = [
  'AWS_SHARED_CREDENTIALS_FILE',
  'AWS_CONFIG_FILE',
  'AWS_WEB_IDENTITY_TOKEN_FILE',
  'AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE',
  'AWS_LOGIN_CACHE_DIRECTORY',
]

const PROFILE_BYTES = 1024 * 1024

type Variable = (name: string) => string | null

/** `variable` gives the value of a variable, or null. The files that profiles name are listed for every profile. */
export function awsFiles(variable: Variable): Guarded[] {
  const home = homeOf(variable)
  const paths = [
    ...(home === null ? [] : [join(home, '.aws')]),
    ...AWS_FILE_VARIABLES.flatMap((name) => variable(name)?.trim() ?? []).map((path) => expanded(path, home)),
    ...profileEntries(variable).flatMap(({ key, value }) => {
      if (key === 'web_identity_token_file') return [value]
      return key === 'credential_process' ? pathsIn(value, home) : []
    }),
  ]
  return paths.map((path) => ({ what: 'AWS credentials', path }))
}

/** Of a command line: its program and the files that it is given, each word of it and each quoted text. */
function pathsIn(command: string, home: string | null): string[] {
  const quoted = [...command.matchAll(/"([^"]*)"|'([^']*)'/g)].map(([, double, single]) => double ?? single ?? '')
  return [...command.split(/[\s"'=]+/), ...quoted.flatMap((text) => [text, text.slice(text.indexOf('=') + 1)])]
    .map((word) => expanded(word, home))
    .filter((word) => word.startsWith('/'))
}

/** The settings of one profile in the config file, or else in the credentials file. */
export function profileSettings(variable: Variable): ReadonlyMap<string, string> {
  const profile = variable('AWS_PROFILE') ?? 'default'
  const own = profileEntries(variable).filter(({ section }) => [profile, `profile ${profile}`].includes(section))
  return new Map(own.map(({ key, value }) => [key, value]))
}

interface Entry {
  readonly section: string
  readonly key: string
  readonly value: string
}

function profileEntries(variable: Variable): Entry[] {
  const home = homeOf(variable)
  const files = [
    variable('AWS_SHARED_CREDENTIALS_FILE') ?? (home === null ? null : join(home, '.aws/credentials')),
    variable('AWS_CONFIG_FILE') ?? (home === null ? null : join(home, '.aws/config')),
  ]
  return files.flatMap((file) => {
    if (file === null) return []
    try {
      return parseEntries(readRegularFile(expanded(file.trim(), home), PROFILE_BYTES))
    } catch {
      // Where it cannot be read, the SDK reads nothing either.
      return []
    }
  })
}

/** `[section]` and `key = value` a line; the value ends at a comment (` #` or ` ;`), as in the SDK. */
function parseEntries(text: string): Entry[] {
  let section = ''
  return text.split(/\r?\n/).flatMap((line) => {
    const [content = ''] = line.trim().split(/\s[#;]/, 1)
    if (content.startsWith('[')) section = content.slice(1).split(']', 1)[0]?.trim().replace(/\s+/g, ' ') ?? ''
    const at = content.indexOf('=')
    if (at <= 0 || content.startsWith('[')) return []
    return [{ section, key: content.slice(0, at).trim(), value: content.slice(at + 1).trim() }]
  })
}

/** The SDK takes `~/` in these paths for the home folder. */
const expanded = (path: string, home: string | null): string =>
  home !== null && path.startsWith('~/') ? join(home, path.slice(2)) : path

/** As the SDK finds it; null for a user without one. */
function homeOf(variable: Variable): string | null {
  const named = variable('HOME') ?? variable('USERPROFILE')
  if (named !== null) return named
  try {
    return homedir()
  } catch {
    return null
  }
}
