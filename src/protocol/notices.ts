// The notices: what an operator should look at though nothing was refused. An event has a notice or a reason.

import { isReason, REASONS } from './reasons.ts'

const NOTICES = {
  runner_id_shared:
    'Another enrollment of this runner ID has a live certificate. The runner may have restarted, two machines may share one token, or a token was stolen. Both go on. Ban the one that should not be there.',
} as const

export type Notice = keyof typeof NOTICES

const isNotice = (text: string): text is Notice => Object.hasOwn(NOTICES, text)

/** The advice for a reason or a notice; null for any other text. */
export function adviceOf(text: string): string | null {
  if (isReason(text)) return REASONS[text].advice
  return isNotice(text) ? NOTICES[text] : null
}
