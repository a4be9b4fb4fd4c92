// Tests how commands lay out what they list.
import { expect, test } from 'vitest'
import { table } from '../../../src/cli/operator/table.ts'

test('a column stays where it is, whatever is missing or long', () => {
  const rows = [
    ['1', null, 'c'],
    ['22222222', '', '“😀”'],
    ['3', 'b', ''],
  ]
  expect(table(['ID', 'NAME', 'NOTE'], rows).split('\n')).toEqual([
    'ID        NAME  NOTE',
    '1         -     c',
    '22222222  -     “😀”',
    '3         b     -',
  ])
})

test('a cell is one cell of one line', () => {
  expect(table(['A', 'B'], [['a\nb\u001b[31m\u202e', 'c']]).split('\n')).toEqual([
    `A${' '.repeat(25)}B`,
    String.raw`a\u000ab\u001b[31m\u202e  c`,
  ])
})
