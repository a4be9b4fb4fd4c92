// Parses the ARN of a caller identity and checks it against account and user ID. Pure.

import { everyCharacter, isLetterOrDigit } from '../../../protocol/characters.ts'
import { type Outcome, refuse } from '../../../protocol/refusals.ts'
import { ok } from '../../../protocol/result.ts'
import { isAwsAccount, isIamName } from '../../../trust/grammar.ts'
import type { AwsClaims } from '../../../trust/modes/aws-sts.ts'
import type { CallerIdentity } from './sts-answer.ts'

/**
 * `arn:aws:sts::<account>:assumed-role/<role>/<session>`, which lacks the role's path, and
 * `arn:aws:iam::<account>:user/<path…/><name>`. Account and UserId must agree with the ARN.
 */
export function claimsOf({ arn, account, userId }: CallerIdentity): Outcome<AwsClaims> {
  const [prefix, partition, service, region, owner, resource, ...rest] = arn.split(':', 7)
  if (prefix !== 'arn' || region !== '' || resource === undefined || rest.length > 0) return refuse('sts_answer')
  if (owner !== account || !isAwsAccount(account)) return refuse('sts_answer')
  if (partition !== 'aws') return refuse('aws_principal', { claimed: { arn } })

  const claims = (kind: 'role' | 'user', name: string): Outcome<AwsClaims> =>
    ok({ mode: 'aws-sts', account, arn, principal: { kind, name } })
  const [type, ...names] = resource.split('/')
  if (service === 'sts' && type === 'assumed-role') {
    const [role = '', session = '', ...more] = names
    if (!isIamName(role) || !isIamName(session) || more.length > 0) return refuse('sts_answer')
    const [roleId = '', ...ofSession] = userId.split(':')
    return isId(roleId) && ofSession.length === 1 && ofSession[0] === session
      ? claims('role', role)
      : refuse('sts_answer')
  }
  if (service === 'iam' && type === 'user') {
    const name = names.pop() ?? ''
    return isIamName(name) && isId(userId) && everyCharacter(resource, isPathCharacter)
      ? claims('user', name)
      : refuse('sts_answer')
  }
  // The root of an account, a federated user, and kinds that AWS may add.
  return refuse('aws_principal', { claimed: { arn } })
}

const isId = (text: string): boolean => text !== '' && text.length <= 128 && everyCharacter(text, isLetterOrDigit)
/** Paths (IAM API reference): U+0021 to U+007E. */
const isPathCharacter = (c: string): boolean => c >= '!' && c <= '~'
