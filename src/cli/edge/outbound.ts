// Directs the Worker's outgoing requests: hosts given with --outbound, hosts with a private CA, all others. workerd sends
// them all itself, so that errors and TLS are those of a deployed Worker.

import type { V4WorkerOptions } from 'miniflare'
import { encodePem, parseCertificateFile } from '../../protocol/pem.ts'
import { CA_FILE_CERTIFICATES } from '../../trust/key-source.ts'
import { CommandError } from '../operator/command.ts'

export interface Detours {
  /** `host` or `host:port` → origin that answers in its place. */
  readonly origins: ReadonlyMap<string, URL>
  /** `host` or `host:port` → PEM of the private CA that it is trusted by. */
  readonly authorities: ReadonlyMap<string, string>
}

type Service = NonNullable<V4WorkerOptions['serviceBindings']>[string]

export const OUTBOUND_WORKER = 'muster-outbound'

/** The binding of a host is named `to <host>`, so that no property of an object is taken for one. */
const SCRIPT = `export default {
  fetch(request, env) {
    const { host, hostname } = new URL(request.url)
    return (env['to ' + host] ?? env['to ' + hostname] ?? globalThis).fetch(request)
  },
}`

/** The Worker that every outgoing request passes through; null where there is no detour. */
export function outboundWorker({ origins, authorities }: Detours): V4WorkerOptions | null {
  const hosts = [...new Set([...origins.keys(), ...authorities.keys()])]
  if (hosts.length === 0) return null
  const of = <T>(map: ReadonlyMap<string, T>, host: string): T | undefined =>
    map.get(host) ?? map.get(new URL(`https://${host}`).hostname)
  const services = hosts.map((host): [string, Service] => {
    const origin = of(origins, host)
    const tls = tlsOptions(of(authorities, host))
    return [`to ${host}`, origin === undefined ? { network: { ...NETWORK, tlsOptions: tls } } : external(origin, tls)]
  })
  return {
    name: OUTBOUND_WORKER,
    modules: [{ type: 'ESModule', path: 'outbound.mjs', contents: SCRIPT }],
    compatibilityDate: '2026-11-01',
    serviceBindings: Object.fromEntries(services),
  }
}

/** Private addresses too, as for every other request of a local Worker. */
const NETWORK = { allow: ['public', 'private'] }

/** Beside the certificates that everybody trusts. */
const tlsOptions = (ca: string | undefined) => ({
  trustBrowserCas: true,
  ...(ca !== undefined && { trustedCertificates: certificatesOf(ca) }),
})

/** One by one: workerd takes the first certificate of a text alone. */
function certificatesOf(pem: string): string[] {
  const blocks = parseCertificateFile(pem, CA_FILE_CERTIFICATES)
  if (!blocks.ok) throw new CommandError(`a caFile of the trust file: ${blocks.error}`)
  return blocks.value.map((der) => encodePem('CERTIFICATE', der))
}

/** The request as it is, under the host's own name: method, path, headers, body, status and redirects stay. */
const external = ({ protocol, host }: URL, tls: ReturnType<typeof tlsOptions>): Service => ({
  external: { address: host, ...(protocol === 'https:' ? { https: { tlsOptions: tls } } : { http: {} }) },
})
