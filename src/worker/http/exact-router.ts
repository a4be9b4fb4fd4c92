// Hono's router of the control plane: a path is served as it is written, without patterns and parameters.

import { METHOD_NAME_ALL, type Params, type Result, type Router } from 'hono/router'

/** As Hono writes `*`: the route of every path that has none. */
const ANY_PATH = '/*'

export class ExactRouter<T> implements Router<T> {
  readonly name = 'ExactRouter'
  readonly #routes = new Map<string, [T, Params][]>()

  add(method: string, path: string, route: T): void {
    const key = `${method} ${path}`
    this.#routes.set(key, [...(this.#routes.get(key) ?? []), [route, {}]])
  }

  /** The route of this method comes before that of all methods. */
  match(method: string, path: string): Result<T> {
    const at = (one: string, place: string) => this.#routes.get(`${one} ${place}`)
    return [at(method, path) ?? at(METHOD_NAME_ALL, path) ?? at(METHOD_NAME_ALL, ANY_PATH) ?? []]
  }
}
