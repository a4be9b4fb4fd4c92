// Parses JSON strictly: UTF-8, bounded depth, no duplicate keys. No I/O.

import { decodeUtf8 } from './bytes.ts'
import { quote } from './characters.ts'
import { JSON_DEPTH } from './limits.ts'
import { err, ok, type Result } from './result.ts'

export type Json = null | boolean | number | string | readonly Json[] | JsonObject
export interface JsonObject {
  readonly [name: string]: Json
}

/** The error is a sentence for the caller that quotes nothing of the text but a key. */
export function readJson(bytes: Uint8Array): Result<Json, string> {
  const text = decodeUtf8(bytes)
  const value = text === null ? undefined : parseText(text)
  if (text === null || value === undefined) return err('the body is not JSON in UTF-8')
  const fault = structureFault(text)
  return fault === null ? ok(value) : err(fault)
}

function parseText(text: string): Json | undefined {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/**
 * Walks over the tokens of a text that is known to be JSON. `JSON.parse` keeps the last of two equal keys and other
 * parsers the first, so that they would see different requests.
 */
function structureFault(text: string): string | null {
  const keysOfOpen: (Set<string> | null)[] = []
  let keyExpected = false
  for (let i = 0; i < text.length; i++) {
    const c = text[i]
    if (c === '"') {
      const end = endOfString(text, i)
      if (keyExpected) {
        const key: string = JSON.parse(text.slice(i, end))
        const keys = keysOfOpen.at(-1)
        if (keys?.has(key)) return `the key ${quote(key, 40)} stands twice`
        keys?.add(key)
        keyExpected = false
      }
      i = end - 1
    } else if (c === '{' || c === '[') {
      if (keysOfOpen.length === JSON_DEPTH) return `the body is nested deeper than ${JSON_DEPTH}`
      keysOfOpen.push(c === '{' ? new Set() : null)
      keyExpected = c === '{'
    } else if (c === '}' || c === ']') {
      keysOfOpen.pop()
      keyExpected = false
    } else if (c === ',') {
      keyExpected = keysOfOpen.at(-1) !== null
    }
  }
  return null
}

function endOfString(text: string, start: number): number {
  let end = text.indexOf('"', start + 1)
  while (isEscaped(text, end)) end = text.indexOf('"', end + 1)
  return end + 1
}

/** Whether an odd number of backslashes is before it. */
function isEscaped(text: string, at: number): boolean {
  let first = at
  while (text[first - 1] === '\\') first--
  return (at - first) % 2 === 1
}

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
