// Sends the HTTP requests of commands, directly or through the proxy that the environment names.

import { exchange, type HttpAnswer, type HttpRequest } from '../../node/http-client.ts'
import { DIRECT, isLoopback, proxyRules } from '../../node/proxy-rules.ts'
import { ok, type Result } from '../../protocol/result.ts'
import { CommandError } from './command.ts'

/**
 * The error is one line for the operator. This machine, so a running edge, is asked directly; for any other host, throws
 * a CommandError where the proxy in the environment cannot be used.
 */
export async function reach(url: URL, sent: HttpRequest): Promise<Result<HttpAnswer, string>> {
  const rules = isLoopback(url.hostname) ? ok(DIRECT) : proxyRules(process.env)
  if (!rules.ok) throw new CommandError(rules.error)
  return exchange(url, { rules: rules.value, extraRoots: () => null, rootsVariable: 'NODE_EXTRA_CA_CERTS' }, sent)
}
