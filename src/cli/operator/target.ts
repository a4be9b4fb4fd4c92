// Adds and reads the options by which a command names runners: by enrollment, runner ID, identity, token or tenant.

import type { Command } from 'commander'
import { isPrintable } from '../../protocol/characters.ts'
import { isTenantSlug } from '../../protocol/spiffe-id.ts'
import { isUuidv7 } from '../../protocol/uuid.ts'
import { BAN_KINDS, type Ban, type BanKind } from '../../trust/bans.ts'
import { CommandError, type SharedOptions } from './command.ts'

/** commander's names of `BAN_KINDS`. */
export interface TargetOptions extends SharedOptions {
  readonly enrollment?: string
  readonly runnerId?: string
  readonly identity?: string
  readonly token?: string
  readonly tenant?: string
}

/** Adds the options; `readTarget` takes exactly one of them. */
export const withTarget = (to: Command): Command =>
  to
    .option('--enrollment <id>', 'one enrollment')
    .option('--runner-id <id>', 'a runner ID, as build-7 or prod-eks/ip-10-0-1-5_ec2_internal')
    .option('--identity <arn-or-sub>', 'an AWS ARN, or the sub of a ServiceAccount')
    .option('--token <id>', 'whoever enrolled with this token')
    .option('--tenant <slug>', 'everybody in a tenant')

const LONGEST_VALUE = 2048

/** What the options name. */
export function readTarget(options: TargetOptions): Ban {
  const values: Record<BanKind, string | undefined> = {
    enrollment: options.enrollment,
    'runner-id': options.runnerId,
    identity: options.identity,
    token: options.token,
    tenant: options.tenant,
  }
  const given = BAN_KINDS.flatMap((kind) => (values[kind] === undefined ? [] : [{ kind, value: values[kind] }]))
  const [one, ...more] = given
  if (one === undefined || more.length > 0) {
    throw new CommandError(`name exactly one of ${BAN_KINDS.map((kind) => `--${kind}`).join(', ')}`)
  }
  const fault = faultOf(one)
  if (fault !== null) throw new CommandError(`--${one.kind} ${JSON.stringify(one.value)} ${fault}`)
  return one
}

function faultOf({ kind, value }: Ban): string | null {
  switch (kind) {
    case 'enrollment':
    case 'token':
      return isUuidv7(value) ? null : 'is not an id: it looks like 0192f3c4-…'
    case 'tenant':
      return isTenantSlug(value) ? null : 'is not a tenant: a-z, 0-9 and -, at most 63'
    case 'identity':
    case 'runner-id':
      return value !== '' && value.length <= LONGEST_VALUE && isPrintable(value) ? null : 'is not one line of text'
  }
}
