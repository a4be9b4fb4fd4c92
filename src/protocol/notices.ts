// What an operator should look at though nothing was refused. A note stands in an event where a reason does.

import { isReason, REASONS } from './reasons.ts'

const NOTES = {
  runner_id_shared:
    'Another enrollment of this runner ID has a live certificate: a restart a moment ago, two machines with one token, or a thief beside the owner. Neither is cut; ban the enrollment that should not be.',
} as const

export type Note = keyof typeof NOTES

const isNote = (text: string): text is Note => Object.hasOwn(NOTES, text)

/** What happened and what to do next, for a reason or a note; null for neither. */
export function adviceOf(text: string): string | null {
  if (isReason(text)) return REASONS[text].advice
  return isNote(text) ? NOTES[text] : null
}
