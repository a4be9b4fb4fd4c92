// The identities that can be banned: an AWS role, session, user or account, or a ServiceAccount. Parses and formats
// them, and lists the bans that apply to a caller. Pure.

import { everyCharacter } from '../protocol/characters.ts'
import { err, ok, type Result } from '../protocol/result.ts'
import { isAwsAccount, isIamName, isLabelName, isSubdomain } from './grammar.ts'

export type BannedIdentity =
  | { readonly kind: 'account'; readonly account: string }
  /** Every session of it. */
  | { readonly kind: 'role'; readonly account: string; readonly role: string }
  | { readonly kind: 'session'; readonly account: string; readonly role: string; readonly session: string }
  | { readonly kind: 'user'; readonly account: string; readonly user: string }
  | { readonly kind: 'service-account'; readonly namespace: string; readonly serviceAccount: string }

/**
 * The normal form. Paths of roles and users are left out: AWS does not prove the path of a role, and a name is unique in
 * its account whatever its path.
 */
export function formatIdentity(identity: BannedIdentity): string {
  switch (identity.kind) {
    case 'account':
      return `arn:aws:iam::${identity.account}:root`
    case 'role':
      return `arn:aws:sts::${identity.account}:assumed-role/${identity.role}`
    case 'session':
      return `arn:aws:sts::${identity.account}:assumed-role/${identity.role}/${identity.session}`
    case 'user':
      return `arn:aws:iam::${identity.account}:user/${identity.user}`
    case 'service-account':
      return `system:serviceaccount:${identity.namespace}:${identity.serviceAccount}`
  }
}

/**
 * Parses what an operator writes, or what STS answers. A bare account and `arn:aws:iam::<account>:root` mean the whole
 * account, as in IAM's own policies. The error says what to write instead; the caller puts the value before it.
 */
export function parseIdentity(text: string): Result<BannedIdentity, string> {
  if (isAwsAccount(text)) return ok({ kind: 'account', account: text })
  if (text.startsWith('arn:')) return parseArn(text)
  const [system, kind, namespace = '', serviceAccount = '', ...rest] = text.split(':', 6)
  if (system !== 'system' || kind !== 'serviceaccount' || rest.length > 0) return err(otherForm(text))
  return isLabelName(namespace) && isSubdomain(serviceAccount)
    ? ok({ kind: 'service-account', namespace, serviceAccount })
    : err('is no ServiceAccount: write system:serviceaccount:<namespace>:<name>, both exact')
}

/** The values of the bans that apply to a caller: its own identity, and the role and account that it belongs to. */
export function namesOfIdentity(identity: string): readonly string[] {
  const parsed = parseIdentity(identity)
  if (!parsed.ok) return [identity]
  return [identity, ...scopesOf(parsed.value).map(formatIdentity)]
}

function scopesOf(identity: BannedIdentity): readonly BannedIdentity[] {
  switch (identity.kind) {
    case 'account':
    case 'service-account':
      return [identity]
    case 'session':
      return [identity, { ...identity, kind: 'role' }, { ...identity, kind: 'account' }]
    case 'role':
    case 'user':
      return [identity, { ...identity, kind: 'account' }]
  }
}

function parseArn(text: string): Result<BannedIdentity, string> {
  const [, partition, service, region, account = '', resource = '', ...rest] = text.split(':', 8)
  if (partition !== 'aws') return err('is of another partition of AWS, from which nobody can enroll')
  if (region !== '' || rest.length > 0) return err(ARN_FORMS)
  if (!isAwsAccount(account)) return err('names no account: 12 digits between the colons')
  const [type, ...names] = resource.split('/')
  if (service === 'iam' && resource === 'root') return ok({ kind: 'account', account })
  if (service === 'sts' && type === 'assumed-role') return parseAssumedRole(account, names)
  if (service !== 'iam' || (type !== 'role' && type !== 'user')) return err(ARN_FORMS)
  const name = names.pop() ?? ''
  if (!isIamName(name) || !names.every(isPathSegment))
    return err(`holds no ${type} name that IAM allows; ${NO_PATTERNS}`)
  return ok(type === 'role' ? { kind: 'role', account, role: name } : { kind: 'user', account, user: name })
}

function parseAssumedRole(account: string, [role = '', session, ...more]: string[]): Result<BannedIdentity, string> {
  if (more.length > 0) {
    return err(`has a path, which AWS leaves out of this ARN: write arn:aws:iam::${account}:role/<path>/<role>`)
  }
  if (!isIamName(role)) return err(`holds no role name that IAM allows; ${NO_PATTERNS}`)
  if (session === undefined) return ok({ kind: 'role', account, role })
  return isIamName(session)
    ? ok({ kind: 'session', account, role, session })
    : err(`holds no session name that STS allows: for every session write arn:aws:iam::${account}:role/${role}`)
}

const ARN_FORMS =
  'is no ARN that a caller can have: write arn:aws:iam::<account>:role/<role>, arn:aws:iam::<account>:user/<user>, arn:aws:sts::<account>:assumed-role/<role>/<session>, or the account alone'
const NO_PATTERNS = 'there are no patterns, and a role stands for all its sessions'

/** Paths hold U+0021 to U+007E (IAM API reference). `*` is refused, since it would be taken for a pattern and is none. */
const isPathSegment = (text: string): boolean => everyCharacter(text, (c) => c >= '!' && c <= '~' && c !== '*')

/** For the other ways in which people write a ServiceAccount, `<namespace>/<name>` and `<namespace>:<name>`. */
function otherForm(text: string): string {
  const [namespace = '', name = '', ...rest] = text.split(text.includes('/') ? '/' : ':')
  return rest.length === 0 && isLabelName(namespace) && isSubdomain(name)
    ? `is no identity: the sub of a ServiceAccount is system:serviceaccount:${namespace}:${name}`
    : 'is no identity: write an AWS ARN, as arn:aws:iam::<account>:role/<role>, an account of 12 digits, or the sub of a ServiceAccount, as system:serviceaccount:<namespace>:<name>'
}
