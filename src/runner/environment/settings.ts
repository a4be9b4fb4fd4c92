// Reads the runner's variables one by one and collects what is wrong with them. A mistake names the variable and never
// quotes its value: it may be a token that was put into the wrong one.

import { isLoopback } from '../../node/proxy-rules.ts'
import { isPrintable } from '../../protocol/characters.ts'
import { folderMistake, pathMistake, stateFolderMistake } from './paths.ts'

/** What the value of `<SERVICE>_PORT` begins with, which Kubernetes sets in each pod of a Service's namespace. */
const SERVICE_LINK = ['tcp://', 'udp://', 'sctp://']

export class Settings {
  readonly mistakes: string[] = []
  /** Values that are ignored, and why. */
  readonly warnings: string[] = []
  readonly #env: NodeJS.ProcessEnv

  constructor(env: NodeJS.ProcessEnv) {
    this.#env = env
    for (const name of Object.keys(env)) {
      if (/^export\s+(RUNNER|COMPASS_RUNNER|AWS)_/.test(name)) {
        this.mistakes.push(
          `the environment has a variable called ${JSON.stringify(name)}: remove "export" from the env file`,
        )
      }
    }
  }

  /** Whether the variable is set; an empty string counts as unset (compose passes `KEY=`). */
  has(name: string): boolean {
    return (this.#env[name] ?? '').trim() !== ''
  }

  /** The variable as it stands, for values with a reader of their own. */
  raw(name: string): string | null {
    return this.has(name) ? (this.#env[name] as string) : null
  }

  /** Trimmed, one line; null where unset or wrong. */
  text(name: string): string | null {
    if (!this.has(name)) return null
    const value = (this.#env[name] as string).trim()
    if (isQuoted(value)) return this.#wrong(name, 'begins and ends with a quotation mark: remove the quotes')
    if (!isPrintable(value)) return this.#wrong(name, 'holds a line end or another control character')
    return value
  }

  choice<T extends string>(name: string, choices: readonly T[]): T | null {
    const value = this.text(name)
    if (value === null) return null
    return choices.find((one) => one === value) ?? this.#wrong(name, `must be one of ${choices.join(', ')}`)
  }

  port(name: string): number | null {
    const value = this.text(name)
    if (value === null) return null
    if (SERVICE_LINK.some((scheme) => value.startsWith(scheme))) {
      const service = name.slice(0, -'_PORT'.length).toLowerCase().replaceAll('_', '-')
      this.warnings.push(
        `${name} is ignored: it is no port number but the address that Kubernetes gives of a Service called ${service}; ` +
          'enableServiceLinks: false in the pod keeps such variables away',
      )
      return null
    }
    const port = /^\d{1,5}$/.test(value) ? Number(value) : 65_536
    return port <= 65_535 ? port : this.#wrong(name, 'must be a port number, 0 to 65535')
  }

  /** Text of at most `limit` characters (code points) that `fits`. */
  word(name: string, limit: number, fits: (text: string) => boolean, rule: string): string | null {
    const value = this.text(name)
    if (value === null) return null
    return [...value].length <= limit && fits(value) ? value : this.#wrong(name, rule)
  }

  /** The path of a file. */
  path(name: string): string | null {
    return this.#checked(name, pathMistake)
  }

  /** The path of a folder that files are read from. */
  folder(name: string): string | null {
    return this.#checked(name, folderMistake)
  }

  /** The path of a folder that files are kept in. */
  stateFolder(name: string): string | null {
    return this.#checked(name, stateFolderMistake)
  }

  /** A token: no white space within. */
  token(name: string): string | null {
    const value = this.text(name)
    if (value === null || !/\s/.test(value)) return value
    return this.#wrong(name, 'holds white space within the token: it was cut or wrapped')
  }

  /**
   * The origin of the control plane as an http or https URL; `path` is tolerated at its end. Plain http only to this
   * machine, since the first request holds a credential.
   */
  origin(name: string, path: string, schemes: 'https' | 'wss'): URL | null {
    const value = this.text(name)
    if (value === null) return null
    const secure = schemes === 'wss' ? ['https://', 'wss://'] : ['https://']
    const plain = schemes === 'wss' ? ['http://', 'ws://'] : ['http://']
    const scheme = [...secure, ...plain].find((one) => value.toLowerCase().startsWith(one))
    const url =
      scheme === undefined
        ? null
        : URL.parse(`http${secure.includes(scheme) ? 's' : ''}://${value.slice(scheme.length)}`)
    if (url === null) return this.#wrong(name, `must be a URL such as ${schemes}://muster.example`)
    if (url.username !== '' || url.password !== '') return this.#wrong(name, 'must not hold a user name or password')
    if (url.search !== '' || url.hash !== '') return this.#wrong(name, 'must not hold a query or a fragment')
    if (![path, `${path}/`, '/'].includes(url.pathname)) {
      return this.#wrong(name, `must be an origin: a path other than ${path} is not served`)
    }
    if (url.protocol === 'http:' && !isLoopback(url.hostname)) {
      return this.#wrong(name, `must begin with ${schemes}://: plain http is for this machine only`)
    }
    return new URL(url.origin)
  }

  #checked(name: string, mistakeOf: (name: string, value: string) => string | null): string | null {
    const value = this.text(name)
    const mistake = value === null ? null : mistakeOf(name, value)
    if (mistake === null) return value
    this.mistakes.push(mistake)
    return null
  }

  /** Records a mistake of the variable. */
  #wrong(name: string, fault: string): null {
    this.mistakes.push(`${name} ${fault}`)
    return null
  }
}

export const isQuoted = (value: string): boolean =>
  value.length > 1 && (value[0] === '"' || value[0] === "'") && value.at(-1) === value[0]
