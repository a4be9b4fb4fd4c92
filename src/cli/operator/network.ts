// How a command reaches others over HTTP: directly, or through the proxy that the operator's environment names.

import { exchange, type HttpAnswer, type HttpRequest } from '../../node/http-client.ts'
import { DIRECT, isLoopback, proxyRules } from '../../node/proxy-rules.ts'
import { ok, type Result } from '../../protocol/result.ts'
import { CommandError } from './command.ts'

/**
 * The error is one line for the operator. Throws a CommandError where the environment names a proxy that is none and one
 * would be asked: this machine, and so a running edge, never is asked through one.
 */
export async function reach(url: URL, sent: HttpRequest): Promise<Result<HttpAnswer, string>> {
  const rules = isLoopback(url.hostname) ? ok(DIRECT) : proxyRules(process.env)
  if (!rules.ok) throw new CommandError(rules.error)
  return exchange(url, { rules: rules.value, extraRoots: () => null, rootsVariable: 'NODE_EXTRA_CA_CERTS' }, sent)
}
