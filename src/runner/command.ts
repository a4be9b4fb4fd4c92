// Runs `muster runner` as a process: its help, signals and exit code.

import { http } from '../node/http-module.ts'
import { directAgent } from '../node/proxy-agent.ts'
import { CONFIGURABLE_MODES } from '../protocol/modes.ts'
import { readArguments } from './environment/arguments.ts'
import { EVIDENCE_HELP } from './evidence/registry.ts'
import { Runner, type RunnerOptions } from './index.ts'

/** Runs the runner to its end, with the arguments after `muster runner`. */
export async function runRunner(args: readonly string[]): Promise<void> {
  const read = readArguments(args)
  if (read === 'help') process.stdout.write(HELP)
  else await runUntilExit(read)
}

/** How long the last log lines may take to leave, in milliseconds. */
const FLUSH_TIMEOUT = 500

async function runUntilExit(options: RunnerOptions): Promise<void> {
  // The AWS SDK asks the machine's metadata endpoint through the global agent. NODE_USE_ENV_PROXY would send that through
  // a proxy, where another machine would answer with its own credentials.
  http.globalAgent = directAgent()
  const runner = new Runner({ ...options, log: (line) => process.stdout.write(line) })
  let signalled = false
  // As the first process of a container it has no default action for signals.
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      if (signalled) process.exit(128 + (signal === 'SIGTERM' ? 15 : 2))
      signalled = true
      runner.stop().catch(() => {})
    })
  }
  // A reader of the log that goes away does not end the runner.
  process.stdout.on('error', () => {})
  // A failed start shows in the exit code.
  runner.start().catch(() => {})
  const code = await runner.ended()
  // A credential process or an endpoint that never answers would keep the process; a reader that stalls would too.
  setTimeout(() => process.exit(code), FLUSH_TIMEOUT)
  process.stdout.write('', () => process.exit(code))
}

const HELP = `Usage: muster runner [options]

Enrolls this machine, keeps its certificate alive and its tunnel open. Configured by variables.

Options
  --token-file <path>        the token, read anew at every use (RUNNER_TOKEN_FILE)
  --runner-id <id>           refuse to start as another runner (RUNNER_ID)
  --mount <src[:dst[:opts]]> a host path (/… or ./…) that jobs will see; refused where it would show a credential
                             (repeatable)
  -h, --help                 show this help

Variables (required: RUNNER_ENROLL_URL, or a provisioned certificate)
  RUNNER_ENROLL_URL          the control plane, https (http to this machine only)
  RUNNER_TUNNEL_URL          where the tunnel goes; default: the same host
  RUNNER_ATTESTATION_MODE    ${CONFIGURABLE_MODES.join(', ')};
                             default: by the token that is given, else bootstrap-token${EVIDENCE_HELP}
  RUNNER_CERT_PEM, RUNNER_KEY_PEM
                             a provisioned certificate, inline or a path; default /certs/cert.pem, /certs/key.pem
  RUNNER_CA_PEM              trusted for the control plane's TLS besides the system's roots; default /certs/ca.pem
  RUNNER_CERT_RENEWAL        on (default) or off
  RUNNER_IDENTITY_DIR        keeps the identity across restarts; one folder for one runner
  RUNNER_TENANT              must be the tenant that this runner enrolls into; names the secrets folder
  RUNNER_SECRETS_DIR         <dir>/<tenant>/* is read into memory at boot
  RUNNER_ID                  as --runner-id
  RUNNER_INSTANCE_ID         a label for logs and the fleet; default: the host name
  RUNNER_HEALTH_PORT         serves /healthz and /readyz
  HTTPS_PROXY, ALL_PROXY, NO_PROXY
                             the proxy for everything that leaves, by curl's rules

Exit codes
   0  stopped (SIGTERM, SIGINT) or drained
  70  the control plane does not accept what this runner sends: versions
  75  the identity is lost: start again
  77  the token is refused or the identity banned: a restart changes nothing
  78  the configuration is wrong: every mistake is logged

Example
  RUNNER_ENROLL_URL=https://muster.example RUNNER_BOOTSTRAP_TOKEN=muster_bt_… muster runner
`
