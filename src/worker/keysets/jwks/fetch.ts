// Fetches a cluster's key set: from its bundled file, its jwksURI, or by discovery (OpenID Connect Discovery 1.0 §4).
// Addresses come from the trust file or are on the issuer's own host, never from a token.

import { readUpTo } from '../../../protocol/bytes.ts'
import { FETCH_TIMEOUT, KEY_SET_BODY_BYTES } from '../../../protocol/limits.ts'
import { type Outcome, refuse } from '../../../protocol/refusals.ts'
import { ok } from '../../../protocol/result.ts'
import { isObject, type Json } from '../../../protocol/strict-json.ts'
import { type Milliseconds, toMilliseconds } from '../../../protocol/time.ts'
import type { Cluster } from '../../../trust/modes/kubernetes.ts'
import { type KeySet, parseKeySet } from './parse.ts'

export type FetchFunction = (url: string, init: RequestInit & { readonly signal: AbortSignal }) => Promise<Response>

/** The `detail` of a refusal is for the operator and quotes nothing that the issuer sent. */
export async function fetchKeySet(
  cluster: Cluster,
  fetch: FetchFunction,
  timeout: Milliseconds = toMilliseconds(FETCH_TIMEOUT),
): Promise<Outcome<KeySet>> {
  const body = await keySetBody(cluster, (url) => fetchJson(fetch, url, timeout))
  if (!body.ok) return body
  const set = await parseKeySet(body.value)
  return set === null ? failed('the key set has no list of at most 100 keys') : ok(set)
}

type GetJson = (url: URL) => Promise<Outcome<Json>>

async function keySetBody({ keys, issuer }: Cluster, get: GetJson): Promise<Outcome<Json>> {
  switch (keys.from) {
    case 'file':
      return ok(keys.jwks)
    case 'uri':
      return get(new URL(keys.uri))
    case 'discovery': {
      const uri = await discover(issuer, get)
      return uri.ok ? get(uri.value) : uri
    }
  }
}

async function discover(issuer: string, get: GetJson): Promise<Outcome<URL>> {
  const document = await get(new URL(`${withoutSlash(issuer)}/.well-known/openid-configuration`))
  if (!document.ok) return document
  if (!isObject(document.value)) return failed('the discovery document is not an object')
  // §4.3: byte for byte. A document of another cluster on the same host would bring that cluster's keys.
  if (document.value.issuer !== issuer) return failed('the discovery document names another issuer')
  const { jwks_uri: text } = document.value
  if (typeof text !== 'string' || !URL.canParse(text)) return failed('the discovery document has no jwks_uri')
  const uri = new URL(text)
  const own = new URL(issuer)
  if (uri.protocol !== 'https:' || uri.username !== '' || uri.password !== '' || uri.host !== own.host) {
    return refuse('jwks_uri_refused', { detail: `jwks_uri is not on ${own.host}: set jwksURI or jwksFile` })
  }
  return ok(uri)
}

/** An issuer may end in a slash (AKS), which the address of its document must not repeat. */
const withoutSlash = (issuer: string): string => (issuer.endsWith('/') ? issuer.slice(0, -1) : issuer)

async function fetchJson(fetch: FetchFunction, url: URL, timeout: Milliseconds): Promise<Outcome<Json>> {
  const what = `${url.host}${url.pathname}`
  if (url.protocol !== 'https:') return failed(`${what} is not https`)
  const signal = AbortSignal.timeout(timeout)
  try {
    return await Promise.race([answerOf(fetch, url, signal, what), expiry(signal, `${what} took too long`)])
  } catch {
    return failed(signal.aborted ? `${what} took too long` : `${what} could not be reached, or not over TLS`)
  }
}

/** For a fetch that ignores the signal, or a body that trickles. */
const expiry = (signal: AbortSignal, detail: string): Promise<Outcome<never>> =>
  new Promise((resolve) => signal.addEventListener('abort', () => resolve(failed(detail)), { once: true }))

async function answerOf(fetch: FetchFunction, url: URL, signal: AbortSignal, what: string): Promise<Outcome<Json>> {
  // kube-apiserver answers 406 where `application/json` alone is accepted for its key set.
  const response = await fetch(url.href, { redirect: 'manual', signal, headers: { accept: '*/*' } })
  if (response.status !== 200) {
    await response.body?.cancel()
    return failed(`${what} answered ${response.status}`)
  }
  const bytes = await readUpTo(response.body, KEY_SET_BODY_BYTES)
  if (bytes === null) return failed(`${what} sent more than ${KEY_SET_BODY_BYTES} bytes`)
  try {
    // The media type is not checked, since S3 sends binary/octet-stream. The decoder drops a byte order mark.
    return ok(JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: false }).decode(bytes)))
  } catch {
    return failed(`${what} did not send JSON`)
  }
}

const failed = (detail: string) => refuse('keys_fetch_failed', { detail })
