// The URL paths of the control plane, for both sides. No I/O.

export const ENROLL_PATH = '/api/enroll'
export const TUNNEL_PATH = '/api/tunnel'
export const TUNNEL_CHALLENGE_PATH = '/api/tunnel/challenge'
/** The trust bundle in the SPIFFE format, and as PEM. */
export const BUNDLE_PATH = '/api/bundle'
export const BUNDLE_PEM_PATH = '/api/bundle.pem'
/** Of the control plane, and of a runner's health server. */
export const HEALTHZ_PATH = '/healthz'
export const READYZ_PATH = '/readyz'
/** Of `muster dev` alone: runs every cron job, or those that `?cron=` names. */
export const SCHEDULED_PATH = '/cdn-cgi/local/scheduled'
/** Of the control plane alone. */
export const CONNECT_ENROLL_PATH = '/muster.runner.v1.RunnerService/Enroll'

/** The files of a provisioned certificate: `muster ca issue` writes them, a runner reads them under `/certs`. */
export const PROVISIONED_FILES = { certificate: 'cert.pem', key: 'key.pem', ca: 'ca.pem' } as const
