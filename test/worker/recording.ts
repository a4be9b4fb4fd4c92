// Where a test puts the recorder of what the objects ask, before they are made. Not a test itself.
import type { CallRecorder } from './calls.ts'

export const recording: { recorder: CallRecorder | null } = { recorder: null }
