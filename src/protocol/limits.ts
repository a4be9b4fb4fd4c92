// Every bound on what comes in from outside and every fixed span of time. All bounds are inclusive.

import { hours, minutes, seconds } from './time.ts'

/** Body of POST /api/enroll and of the Connect door, in bytes. */
export const ENROLL_BODY_BYTES = 32 * 1024
/** Nesting of a JSON body: the enrollment request needs three. */
export const JSON_DEPTH = 8
/** A compact JWS, in bytes; real ServiceAccount tokens are 1 to 2 KiB. */
export const JWS_BYTES = 8 * 1024
/** The optional label of an instance, in characters. */
export const INSTANCE_ID_CHARACTERS = 128
/** A key set or discovery document, in bytes. */
export const KEY_SET_BODY_BYTES = 1024 * 1024
export const KEY_SET_KEYS = 100
/** An answer of STS, in bytes. */
export const STS_BODY_BYTES = 64 * 1024
/** A tunnel frame, in bytes. */
export const TUNNEL_FRAME_BYTES = 4 * 1024
/** A certificate as the edge hands it over (`certRFC9440` is cut off past it), in bytes of DER. */
export const CERTIFICATE_BYTES = 10 * 1024

/** An outbound fetch (key set, STS). */
export const FETCH_TIMEOUT = seconds(3)
/** How far `x-amz-date` of a signed request may be from now; AWS itself allows 5 to 15 minutes. */
export const AWS_DATE_LEEWAY = minutes(5)
/** How long the last good key set of a cluster serves while its issuer cannot be reached. */
export const KEY_SET_LIFE = hours(24)
/** A set older than this has missed its hourly refresh. */
export const KEY_SET_OVERDUE = minutes(70)
/** An unknown `kid` has a cluster's set fetched again once in this time, worldwide. */
export const KEY_SET_REFETCH_COOLDOWN = minutes(5)
/** How long an isolate keeps a set; what cannot be used is asked for again as soon as a refused caller may return. */
export const KEY_SET_MEMORY = seconds(60)
export const KEY_SET_UNUSABLE_MEMORY = seconds(10)
/** From one failed fetch to the next, while a cluster has no set; doubles with each. */
export const KEY_SET_BACKOFF = { least: seconds(10), most: minutes(5) }
/** Clock difference allowed to any peer. */
export const CLOCK_LEEWAY = seconds(60)
/** A certificate may be renewed this long after its end, and `CLOCK_LEEWAY` more. */
export const RENEWAL_GRACE = seconds(300)
/** How early a certificate becomes valid before now, for runners whose clock is behind. */
export const NOT_BEFORE_BACKDATE = seconds(60)
/** How long a consumed token or used evidence answers the same key with the same enrollment. */
export const SAME_KEY_RETRY = minutes(10)
/** Of a bootstrap token. */
export const DEFAULT_TOKEN_TTL = hours(1)
/** What an operator writes beside a token or a ban. */
export const MAX_NOTE_CHARACTERS = 256
/** A certificate without noRevAvail (RFC 9608) would need revocation; up to this it does not. */
export const NO_REVOCATION_LIFETIME = hours(24)
/** `muster ca issue`: a provisioned certificate. */
export const PROVISIONED_LIFETIME_MAX = hours(90 * 24)
