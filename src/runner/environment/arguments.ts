// Reads the arguments of `muster runner`. Wrong ones are mistakes of configuration, reported with all others.

import { parseArgs } from 'node:util'

/** What the arguments say; the library takes the same as options. */
export interface Flags {
  /** `--token-file`. */
  readonly tokenFile?: string
  /** `--runner-id`. */
  readonly runnerId?: string
  /** `--mount`, each `SRC[:DST[:OPTIONS]]`. */
  readonly mounts?: readonly string[]
  /** What is wrong with the arguments themselves: reported with every other mistake. */
  readonly mistakes?: readonly string[]
}

/** Read without commander, to save memory on every machine. */
const OPTIONS = {
  'token-file': { type: 'string' },
  'runner-id': { type: 'string' },
  mount: { type: 'string', multiple: true },
  help: { type: 'boolean', short: 'h' },
  // Every command takes these; a runner needs none of them.
  json: { type: 'boolean' },
  local: { type: 'boolean' },
  remote: { type: 'boolean' },
  trust: { type: 'string' },
  'persist-to': { type: 'string' },
  env: { type: 'string' },
} as const

type Name = keyof typeof OPTIONS

/** A mistake quotes no value: it may be a token. */
export function readArguments(given: readonly string[]): Flags | 'help' {
  const mistakes: string[] = []
  const values: { readonly name: Name; readonly value: string }[] = []
  const args = [...given]
  // Where the next argument looks like an option, the value was left out: `=` keeps parseArgs from taking that one.
  for (const [at, arg] of args.entries()) {
    const follower = args[at + 1]
    if (takesValue(arg) && (follower === undefined || follower.startsWith('-'))) args[at] = `${arg}=`
  }
  const { tokens, values: read } = parseArgs({ args, options: OPTIONS, strict: false, tokens: true })
  if (read.help === true) return 'help'
  for (const token of tokens) {
    if (token.kind === 'positional') mistakes.push(`Argument ${token.index + 1} belongs to no option`)
    if (token.kind !== 'option') continue
    const option = `Option '${token.rawName}'`
    if (!isName(token.name)) mistakes.push(`Unknown option '${token.rawName}'`)
    else if (OPTIONS[token.name].type === 'boolean') {
      if (token.value !== undefined) mistakes.push(`${option} takes no value`)
    } else if (!token.value) mistakes.push(`${option} has no value`)
    else values.push({ name: token.name, value: token.value })
  }
  const all = (name: Name): string[] => values.filter((one) => one.name === name).map(({ value }) => value)
  for (const name of ['token-file', 'runner-id'] as const) {
    if (all(name).length > 1) mistakes.push(`Option '--${name}' is given more than once`)
  }
  const [tokenFile, runnerId, mounts] = [all('token-file').at(-1), all('runner-id').at(-1), all('mount')]
  return {
    ...(tokenFile !== undefined && { tokenFile }),
    ...(runnerId !== undefined && { runnerId }),
    ...(mounts.length > 0 && { mounts }),
    ...(mistakes.length > 0 && { mistakes }),
  }
}

const isName = (name: string): name is Name => Object.hasOwn(OPTIONS, name)

const takesValue = (arg: string): boolean => {
  const name = arg.startsWith('--') ? arg.slice(2) : ''
  return isName(name) && OPTIONS[name].type === 'string'
}
