// What a message of ours says of an error that Node or the system raised.

/** The system's code (`ENOENT`), which quotes no content; `otherwise` for an error without one. */
export const codeOf = (error: unknown, otherwise = 'unknown error'): string =>
  error instanceof Error && 'code' in error ? String(error.code) : otherwise

/** The system's own words: code, call and path. */
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
