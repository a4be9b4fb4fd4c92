// Says where the rotation of a CA folder stands, and what comes next.

import { DEFAULT_CA_DIR } from './folder.ts'
import { retiredKeys, rotationState } from './rotation.ts'

interface Standing {
  /** Where the rotation is. */
  readonly text: string
  /** When the next step is due, and its command. */
  readonly when: string
  readonly command: string
}

export function standingOf(dir: string): Standing {
  const step = (name: string) => `muster ca rotate ${name}${dir === DEFAULT_CA_DIR ? '' : ` --dir ${dir}`}`
  switch (rotationState(dir)) {
    case 'none':
      return { text: 'no rotation is under way', when: 'to begin one', command: step('prepare') }
    case 'prepared':
      return {
        text: 'rotation prepared: the old CA signs, both roots belong in the bundle',
        when: 'when the live bundle has had both roots for a day, so that all who read it have the new one',
        command: `${step('activate')} --url https://<the live Muster>`,
      }
    case 'activated':
      return {
        text: 'rotation activated: the new CA signs, certificates of the old one are accepted',
        when: 'when no live runner holds a certificate of the old CA',
        command: `${step('retire')} --remote`,
      }
  }
}

/** One line: where the rotation is, and what comes next. */
export function rotationText(dir: string): string {
  const { text, when, command } = standingOf(dir)
  return `${text}; ${when}: \`${command}\``
}

/** Where the private keys of retired CAs are, which nothing needs any more; empty where there are none. */
export const retiredKeysText = (dir: string): string[] => {
  const keys = retiredKeys(dir)
  return keys.length === 0 ? [] : [`nothing needs the private keys of retired CAs, remove them: ${keys.join(', ')}`]
}
