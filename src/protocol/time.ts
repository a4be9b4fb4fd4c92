// Times and durations, with their units as types, so that seconds and milliseconds cannot be mixed up.

declare const unit: unique symbol

/** A duration in seconds. */
export type Seconds = number & { readonly [unit]: 'seconds' }
/** A duration in milliseconds. */
export type Milliseconds = number & { readonly [unit]: 'milliseconds' }
/** A point in time, in whole seconds since 1970 (X.509, JWT and D1 columns). */
export type EpochSeconds = number & { readonly [unit]: 'epoch seconds' }
/** A point in time, in milliseconds since 1970 (what `Date.now` gives). */
export type EpochMilliseconds = number & { readonly [unit]: 'epoch milliseconds' }

/** Reads the time. It is passed in everywhere, so that tests can set it. */
export type Clock = () => EpochMilliseconds

export const seconds = (n: number): Seconds => n as Seconds
export const milliseconds = (n: number): Milliseconds => n as Milliseconds
export const epochSeconds = (n: number): EpochSeconds => n as EpochSeconds
export const epochMilliseconds = (n: number): EpochMilliseconds => n as EpochMilliseconds

export const minutes = (n: number): Seconds => seconds(n * 60)
export const hours = (n: number): Seconds => seconds(n * 3600)

export const systemClock: Clock = () => epochMilliseconds(Date.now())

export const toEpochSeconds = (t: EpochMilliseconds): EpochSeconds => epochSeconds(Math.floor(t / 1000))
export const toEpochMilliseconds = (t: EpochSeconds): EpochMilliseconds => epochMilliseconds(t * 1000)
export const toMilliseconds = (d: Seconds): Milliseconds => milliseconds(d * 1000)
export const addSeconds = (t: EpochSeconds, d: Seconds): EpochSeconds => epochSeconds(t + d)
export const subtractSeconds = (t: EpochSeconds, d: Seconds): EpochSeconds => epochSeconds(t - d)
/** How long from `from` to `to`; negative when `to` is earlier. */
export const between = (from: EpochSeconds, to: EpochSeconds): Seconds => seconds(to - from)

/** The last second of the year 9999: RFC 3339 has no later one. */
export const LAST_TIME = epochSeconds(253_402_300_799)

/** RFC 3339 in UTC with whole seconds. */
export const rfc3339 = (t: EpochSeconds): string => `${new Date(t * 1000).toISOString().slice(0, 19)}Z`
