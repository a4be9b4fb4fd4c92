// The grammars of single values in the trust file. Pure.

import { everyCharacter, isDigit, isLetterOrDigit, isLowerOrDigit } from '../protocol/characters.ts'
import { isTenantSlug, isTrustDomain } from '../protocol/spiffe-id.ts'
import type { Grammar } from './declaration.ts'

/** `[a-z0-9-]{1,40}`: the first segment of a runner ID. */
export const isClusterName = (text: string): boolean =>
  text.length >= 1 && text.length <= 40 && everyCharacter(text, (c) => isLowerOrDigit(c) || c === '-')

/** RFC 1123 label, as Kubernetes names namespaces. */
export const isLabelName = (text: string): boolean =>
  text.length >= 1 &&
  text.length <= 63 &&
  everyCharacter(text, (c) => isLowerOrDigit(c) || c === '-') &&
  !text.startsWith('-') &&
  !text.endsWith('-')

/** RFC 1123 subdomain, as Kubernetes names ServiceAccounts, pods and nodes: at most 253 in all. */
export const isSubdomain = (text: string): boolean =>
  text.length <= 253 &&
  text.split('.').every((part) => {
    const [first, last] = [part[0], part.at(-1)]
    return (
      first !== undefined &&
      last !== undefined &&
      isLowerOrDigit(first) &&
      isLowerOrDigit(last) &&
      everyCharacter(part, (c) => isLowerOrDigit(c) || c === '-')
    )
  })

/** 12 ASCII digits. */
export const isAwsAccount = (text: string): boolean => text.length === 12 && everyCharacter(text, isDigit)

/** Names of roles, users and sessions (IAM and STS API references): `[\w+=,.@-]`, at most 64. */
export const isIamName = (text: string): boolean =>
  text.length >= 1 && text.length <= 64 && everyCharacter(text, (c) => isLetterOrDigit(c) || '+=,.@_-'.includes(c))

/** Areas of the commercial partition. Others (`us-gov-`, `cn-`, `us-iso`, `eusc-`) have other endpoints and ARNs. */
const AREAS = ['af', 'ap', 'ca', 'eu', 'il', 'me', 'mx', 'sa', 'us']
const DIRECTIONS = ['north', 'south', 'east', 'west', 'central', 'northeast', 'northwest', 'southeast', 'southwest']

/** The form of a region of the commercial partition: `<area>-<direction>-<digit>`. */
export function isAwsRegion(text: string): boolean {
  const [area = '', direction = '', number = '', ...rest] = text.split('-')
  return (
    rest.length === 0 &&
    AREAS.includes(area) &&
    DIRECTIONS.includes(direction) &&
    number.length === 1 &&
    number >= '1' &&
    number <= '9'
  )
}

/** What EKS puts at the end of its issuers. */
const isEksId = (text: string): boolean =>
  text.length >= 1 && text.length <= 64 && everyCharacter(text, (c) => isLetterOrDigit(c))

/** A project ID; old ones of a company carry its domain in front (`example.com:project`). */
function isGoogleProject(text: string): boolean {
  const [first = '', second, ...rest] = text.split(':')
  return rest.length === 0 && (second === undefined ? isLabelName(first) : isSubdomain(first) && isLabelName(second))
}

/** An audience is compared byte for byte; only characters that are invisible in a file are refused. */
const isAudience = (text: string): boolean =>
  text.length >= 1 && text.length <= 255 && everyCharacter(text, (c) => c > ' ' && c <= '~')

/** A name of a binding in wrangler.toml. */
const isBindingName = (text: string): boolean =>
  text.length <= 64 && everyCharacter(text, (c) => isLetterOrDigit(c) || c === '_') && !isDigit(text[0] ?? '0')

/** Why `text` cannot be an address to fetch keys from, or null. Its bytes are kept as they are. */
function httpsFault(text: string): string | null {
  if (!text.startsWith('https://')) return 'must begin with https://'
  if (!everyCharacter(text, (c) => c > ' ' && c <= '~' && !'"\'<>\\^`{|}'.includes(c)))
    return 'holds a character that no URL has'
  if (text.includes('?')) return 'must have no query'
  if (text.includes('#')) return 'must have no fragment'
  const url = URL.parse(text)
  if (url === null) return 'is not a URL'
  if (url.username !== '' || url.password !== '' || authorityOf(text).includes('@'))
    return 'must have no user name or password'
  if (authorityOf(text) !== url.host && authorityOf(text) !== `${url.host}:443`)
    return `has a host that would be read as ${url.host}: write that, where tokens say so too`
  if (url.hostname.split('.').includes('')) return 'has a host name with an empty part'
  return url.pathname === (pathOf(text) || '/') ? null : 'has a path that would be read in another way'
}

/** RFC 6761, RFC 6762, ICANN's `internal`, and common names of private networks and clusters. */
const PRIVATE_ZONES = ['localhost', 'local', 'internal', 'svc', 'lan', 'home', 'corp', 'intranet', 'private']

/** Whether only a private network could answer at this address: an IP address or a name of no public zone. */
export function isPrivateAddress(text: string): boolean {
  const host = URL.parse(text)?.hostname ?? ''
  if (host.startsWith('[') || everyCharacter(host, (c) => isDigit(c) || c === '.')) return true
  const last = host.slice(host.lastIndexOf('.') + 1)
  return !host.includes('.') || PRIVATE_ZONES.includes(last)
}

const authorityOf = (url: string): string => url.slice('https://'.length).split('/', 1)[0] ?? ''
const pathOf = (url: string): string => url.slice('https://'.length + authorityOf(url).length)

// The grammars with their words for messages and editors. Plain data, which the bundler leaves out of the Worker.

export const SLUG = {
  what: '1 to 63 of a-z 0-9 -',
  allowed: isTenantSlug,
  schema: { pattern: '^[a-z0-9-]{1,63}$' },
} satisfies Grammar

export const TRUST_DOMAIN = {
  what: 'a SPIFFE trust domain: a-z 0-9 . - _ only, no spiffe://',
  allowed: isTrustDomain,
  schema: { pattern: '^[a-z0-9._-]{1,255}$' },
} satisfies Grammar

export const CLUSTER_NAME = {
  what: '1 to 40 of a-z 0-9 -',
  allowed: isClusterName,
  schema: { pattern: '^[a-z0-9-]{1,40}$' },
} satisfies Grammar

/** A name that something else in the file has; whether it has is looked up. */
export const NAME_IN_FILE = { what: 'a name', allowed: () => true, schema: {} } satisfies Grammar

export const NAMESPACE = {
  what: 'the exact name of a namespace (RFC 1123 label); there are no patterns',
  allowed: isLabelName,
  schema: { maxLength: 63 },
} satisfies Grammar

export const WORKLOAD_NAME = {
  what: 'the exact name of a ServiceAccount (RFC 1123 subdomain); there are no patterns',
  allowed: isSubdomain,
  schema: { maxLength: 253 },
} satisfies Grammar

export const NODE = {
  what: 'the name of a node (RFC 1123 subdomain)',
  allowed: isSubdomain,
  schema: { maxLength: 253 },
} satisfies Grammar

export const AWS_ACCOUNT = {
  what: '12 digits in quotes',
  allowed: isAwsAccount,
  schema: { pattern: '^[0-9]{12}$' },
} satisfies Grammar

export const IAM_ROLE = {
  what: 'a bare role name of at most 64 characters: no path (AWS does not prove it), no ARN, no pattern',
  allowed: isIamName,
  schema: { maxLength: 64 },
} satisfies Grammar
export const IAM_USER = {
  what: 'a bare user name of at most 64 characters: no path (AWS does not prove it), no ARN, no pattern',
  allowed: isIamName,
  schema: { maxLength: 64 },
} satisfies Grammar

export const AWS_REGION = {
  what: 'a region of the commercial partition, as us-east-1 (GovCloud, China and the like are others)',
  allowed: isAwsRegion,
  schema: { pattern: '^[a-z]{2}-[a-z]+-[1-9]$' },
} satisfies Grammar

export const EKS_ID = {
  what: 'the id at the end of the cluster’s issuer',
  allowed: isEksId,
  schema: {},
} satisfies Grammar

export const GOOGLE_PROJECT = {
  what: 'a Google Cloud project ID',
  allowed: isGoogleProject,
  schema: {},
} satisfies Grammar

export const GOOGLE_LOCATION = {
  what: 'a region or zone of Google Cloud',
  allowed: isLabelName,
  schema: {},
} satisfies Grammar

export const GKE_CLUSTER = { what: 'the name of a GKE cluster', allowed: isLabelName, schema: {} } satisfies Grammar

export const AUDIENCE = {
  what: '1 to 255 printable ASCII characters without spaces',
  allowed: isAudience,
  schema: { maxLength: 255 },
} satisfies Grammar

export const BINDING = {
  what: 'the name of a binding in wrangler.toml',
  allowed: isBindingName,
  schema: {},
} satisfies Grammar

export const HTTPS_ADDRESS = {
  what: 'an https address',
  allowed: (text: string) => httpsFault(text) === null,
  fault: httpsFault,
  schema: { pattern: '^https://' },
} satisfies Grammar

const issuerFault = (text: string): string | null =>
  text.includes('/.well-known') ? 'is a discovery document: leave out /.well-known and what follows' : httpsFault(text)

export const ISSUER = {
  what: 'the https address that is `iss` of its tokens',
  allowed: (text: string) => issuerFault(text) === null,
  fault: issuerFault,
  schema: { pattern: '^https://' },
} satisfies Grammar
