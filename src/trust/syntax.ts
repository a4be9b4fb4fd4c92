// Words mistakes in YAML syntax so that they say what to write.

import type { YAMLError } from 'yaml'
import { printable, quote } from '../protocol/characters.ts'

/** One sentence about an error of the library in `text`. */
export function syntaxFault({ code, message, pos }: YAMLError, text: string): string {
  const rest = text.slice(pos[0]).split('\n', 1)[0]?.trimEnd() ?? ''
  // Up to the end of the value, in brackets or not.
  const value = rest.split(/,|\s*[\]}]|\s+#/, 1)[0] || rest.slice(0, 1)
  switch (code) {
    case 'RESOURCE_EXHAUSTION':
      return 'nested deeper than any trust file is'
    case 'TAB_AS_INDENT':
      return 'a tab: indent with spaces'
    case 'BAD_ALIAS':
      return `${quote(value)}: there are no patterns, anchors and aliases: write the exact value out`
    case 'BAD_SCALAR_START':
      return `${quote(value)} must be in quotes: no plain value begins with ${printable(value.slice(0, 1))}`
    case 'BLOCK_AS_IMPLICIT_KEY':
      return `${quote(rest)} has a second ": " on its line: put the value in quotes, or give the field a line of its own`
    case 'MULTILINE_IMPLICIT_KEY':
      return `${quote(rest)}: a field is its name, a colon and a space, on one line`
    case 'BAD_DQ_ESCAPE':
      return `${quote(text.slice(pos[0], pos[0] + 2))} means nothing in double quotes: write \\\\, or use single quotes`
    case 'BLOCK_IN_FLOW':
      return `${quote(rest)}: within { } and [ ] everything is written with { } and [ ]`
    case 'MULTIPLE_ANCHORS':
    case 'MULTIPLE_TAGS':
    case 'ALIAS_PROPS':
    case 'BAD_PROP_ORDER':
      return `${quote(value)}: anchors, aliases and tags are not allowed`
    case 'BAD_INDENT':
      return message.startsWith('Flow')
        ? 'a { or [ that is not closed before here, or not indented under its field'
        : `${quote(rest)} is indented wrongly: the fields of a mapping, and the items of a list, begin in one column`
    case 'MISSING_CHAR':
      return missingCharacter(message, rest)
    case 'UNEXPECTED_TOKEN':
      return `${quote(rest)} has no place here: is a quote, a bracket or an indentation before it wrong?`
    default:
      return printable(message.split('\n', 1)[0]?.trim() ?? '')
  }
}

function missingCharacter(message: string, rest: string): string {
  if (message.includes('quote')) return 'a quote that is not closed before here'
  if (message.includes('Missing ,')) return `a comma is missing before ${quote(rest)}`
  if (message.includes('map values')) return `${quote(rest)} is no field: write its name, a colon and a space`
  if (message.includes('Sequence item'))
    return `${quote(rest)} is indented wrongly: the fields of a mapping, and the items of a list, begin in one column`
  return printable(message.split('\n', 1)[0]?.trim() ?? '')
}
