// What an operator should look at though nothing was refused. A notice stands in an event where a reason does.

import { isReason, REASONS } from './reasons.ts'

const NOTICES = {
  runner_id_shared:
    'Another enrollment of this runner ID has a live certificate: a restart a moment ago, two machines with one token, or a thief beside the owner. Neither is cut; ban the enrollment that should not be.',
} as const

export type Notice = keyof typeof NOTICES

const isNotice = (text: string): text is Notice => Object.hasOwn(NOTICES, text)

/** What happened and what to do next, for a reason or a notice; null for neither. */
export function adviceOf(text: string): string | null {
  if (isReason(text)) return REASONS[text].advice
  return isNotice(text) ? NOTICES[text] : null
}
