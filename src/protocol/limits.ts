// Bounds on what comes in from outside, and fixed spans of time. All bounds are inclusive.

import { hours, minutes, seconds } from './time.ts'

/** Body of POST /api/enroll and of a call to the Connect door, in bytes. */
export const ENROLL_BODY_BYTES = 32 * 1024
/** Nesting of a JSON body: the enrollment request needs three. */
export const JSON_DEPTH = 8
/** A compact JWS, in bytes; real ServiceAccount tokens are 1 to 2 KiB. */
export const JWS_BYTES = 8 * 1024
/** The optional label of an instance, in characters. */
export const INSTANCE_ID_CHARACTERS = 128
/** What a runner says it is, in characters. */
export const AGENT_CHARACTERS = 64
/** A key set or discovery document, in bytes. */
export const KEY_SET_BODY_BYTES = 1024 * 1024
export const KEY_SET_KEYS = 100
/** An answer of STS, in bytes. */
export const STS_BODY_BYTES = 64 * 1024
/** A tunnel frame, in bytes. */
export const TUNNEL_FRAME_BYTES = 4 * 1024
/** A challenge of the tunnel, in characters; today's have 70. */
export const CHALLENGE_CHARACTERS = 512
/** A certificate in DER, in bytes; the edge passes on no larger one (`certRFC9440`). */
export const CERTIFICATE_BYTES = 10 * 1024
/** Certificates of a PEM text that presents a leaf. Those after the leaf are ignored. */
export const PRESENTED_CERTIFICATES = 5
/** Certificates of CA_CERT, CA_PREVIOUS, CA_TRUST or a trust bundle: issuing, root, and up to eight more. */
export const CA_CERTIFICATES = 10
/** A certificate request in DER, in bytes; one with a 64-character challenge alone has under 300. */
export const CSR_BYTES = 16 * 1024

/** Time-out of a fetch (key set, STS) and of reading the ban list. */
export const FETCH_TIMEOUT = seconds(3)
/** How far `x-amz-date` of a signed request may be from now; AWS itself allows 5 to 15 minutes. */
export const AWS_DATE_LEEWAY = minutes(5)
/** How long the last good key set of a cluster serves while its issuer cannot be reached. */
export const KEY_SET_LIFE = hours(24)
/** An older set has missed its hourly refresh. */
export const KEY_SET_OVERDUE = minutes(70)
/** An unknown `kid` causes at most one fetch of a cluster's set in this time, worldwide. */
export const KEY_SET_REFETCH_COOLDOWN = minutes(5)
/** How long an isolate keeps a set; an unusable one for no longer than the `Retry-After` of the refusal. */
export const KEY_SET_MEMORY = seconds(60)
export const KEY_SET_UNUSABLE_MEMORY = seconds(10)
/** Back-off after a failed fetch, while a cluster has no set; doubles with each failure. */
export const KEY_SET_BACKOFF = { least: seconds(10), most: minutes(5) }
/** Allowed difference to any peer's clock. */
export const CLOCK_LEEWAY = seconds(60)
/** A certificate may be renewed this long after its end, and `CLOCK_LEEWAY` more. */
export const RENEWAL_GRACE = seconds(300)
/** A certificate is valid from so long before its issue, for runners whose clock is slow. */
export const NOT_BEFORE_BACKDATE = seconds(60)
/** For so long the same evidence with the same key gets the same enrollment again. */
export const SAME_KEY_RETRY = minutes(10)
/** Default lifetime of a bootstrap token. */
export const DEFAULT_TOKEN_TTL = hours(1)
/** An operator's note on a token or a ban. */
export const MAX_NOTE_CHARACTERS = 256
/** A certificate with at most this lifetime says noRevAvail (RFC 9608). */
export const NO_REVOCATION_LIFETIME = hours(24)
/** A certificate of `muster ca issue`. */
export const PROVISIONED_LIFETIME_MAX = hours(90 * 24)
