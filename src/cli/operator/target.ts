// Adds and reads the options by which a command names runners: by enrollment, runner ID, identity, token or tenant.

import type { Command } from 'commander'
import { BAN_KINDS, type Ban, type BanContext, type BanKind, parseBan } from '../../trust/bans.ts'
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
    .option('--identity <arn-or-sub>', 'an AWS role, session, user or account, or the sub of a ServiceAccount')
    .option('--token <id>', 'whoever enrolled with this token')
    .option('--tenant <slug>', 'everybody in a tenant')

/** What the options name, as it was written. */
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
  return one
}

/** The normal form of a target, in which bans are stored and compared; `parseBan` says what `trust` is for. */
export function parseTarget({ kind, value }: Ban, trust: BanContext | null): Ban {
  const parsed = parseBan(kind, value, trust)
  if (!parsed.ok) throw new CommandError(`--${kind} ${parsed.error}`)
  return parsed.value
}
