// Lays out what a command lists: a line of headers, then a line for each row, in columns that stay where they are; and
// puts rows of several databases in one order.

import { printable } from '../../protocol/characters.ts'

/** A cell without text is a `-`, so that the columns after it stay in place for a person and for `awk`. */
export function table(headers: readonly string[], rows: readonly (readonly (string | null)[])[]): string {
  const lines = [headers, ...rows.map((row) => row.map((cell) => (cell ? printable(cell) : '-')))]
  const widths = headers.map((_, i) => Math.max(...lines.map((line) => widthOf(line[i] ?? ''))))
  return lines
    .map((line) =>
      line
        .map((cell, i) => pad(cell, widths[i] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

/** In code points. */
const widthOf = (text: string): number => [...text].length
const pad = (text: string, width: number): string => text + ' '.repeat(width - widthOf(text))

/** Rows of several databases, by ids that sort by time. */
export const newestFirst = <T>(rows: readonly T[], idOf: (row: T) => string): T[] =>
  rows.toSorted((a, b) => (idOf(a) < idOf(b) ? 1 : -1))
