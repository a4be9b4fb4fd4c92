// AWS without AWS: moto answers as STS with its signature checks on; botocore, the AWS SDK for JavaScript and our own
// runner sign; the requests enroll at a `muster dev`.

import { strict as assert } from 'node:assert'
import { X509Certificate } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { systemClock } from '../../src/protocol/time.ts'
import type { AwsCredentials } from '../../src/runner/evidence/aws-container.ts'
import { signAwsEvidence } from '../../src/runner/evidence/aws-sts.ts'
import { type RunningEdge, startEdge } from '../end-to-end/edge.ts'
import { PROJECT } from '../end-to-end/processes.ts'
import { enrollBody, makeRequester } from '../fakes/requester.ts'
import { type Check, cacheFolder, type Peer, run, runs, startServer } from './peer.ts'

const MOTO = 'moto[server]==5.2.5'
const BOTOCORE = 'botocore==1.44.8'
const SDK = '@aws-sdk/client-sts@3.1177.0'

const folder = cacheFolder('aws')
const python = join(folder, 'venv', 'bin', 'python')
const script = (name: string): string => join(PROJECT, 'test', 'interop', 'aws', name)

/** moto's account. */
const ACCOUNT = '123456789012'
const TRUST = `
tenants:
  - slug: red
    aws: [{ account: "${ACCOUNT}", role: red-runner }, { account: "${ACCOUNT}", user: runner }]
`

export const aws: Peer = {
  name: 'aws',
  summary: 'requests signed by botocore, by the AWS SDK for JavaScript and by our runner, judged by moto as STS',
  async prepare() {
    if (!(await runs('python3', '--version'))) return ['python3']
    const missing: string[] = []
    if (!(await runs(python, '-c', 'import moto.server, botocore'))) {
      const venv =
        (await runs('python3', '-m', 'venv', join(folder, 'venv'))) || missing.push('the venv module of python3')
      const installed = venv && (await runs(python, '-m', 'pip', 'install', '--quiet', MOTO, BOTOCORE))
      if (!installed) missing.push(`${MOTO} and ${BOTOCORE} from PyPI`)
    }
    const sdk = join(folder, 'sdk')
    if (!existsSync(join(sdk, 'node_modules', '@aws-sdk', 'client-sts'))) {
      const args = ['install', '--prefix', sdk, '--no-save', '--no-audit', '--no-fund', '--ignore-scripts', SDK]
      if (!(await runs('npm', ...args))) missing.push(`${SDK} from npm`)
    }
    return missing
  },
  async run(check) {
    const moto = await startServer(
      python,
      (port) => ['-m', 'moto.server', '-H', '127.0.0.1', '-p', String(port)],
      '/moto-api/data.json',
      {
        INITIAL_NO_AUTH_ACTION_COUNT: '6',
      },
    )
    try {
      const keys: Keys = JSON.parse(await run(python, [script('prepare_moto.py'), moto.url]))
      const edge = await startEdge({ trust: TRUST, outbound: { 'sts.us-east-1.amazonaws.com': moto.url } })
      try {
        await enrollAll(check, edge, keys)
      } finally {
        await edge.stop()
      }
    } finally {
      await moto.stop()
    }
  },
}

type Keys = Record<'user' | 'red' | 'blue', AwsCredentials>

interface Sent {
  readonly region: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}
type Signer = (credentials: AwsCredentials, nonce: string) => Promise<Sent>

const REGION = 'us-east-1'
const SIGNERS: Record<string, Signer> = {
  botocore: async (credentials, nonce) =>
    JSON.parse(await run(python, [script('sign_botocore.py'), REGION, nonce], variables(credentials))),
  'the AWS SDK for JavaScript': async (credentials, nonce) =>
    JSON.parse(
      await run(process.execPath, [script('sign_sdk.mjs'), join(folder, 'sdk'), REGION, nonce], variables(credentials)),
    ),
  'our runner': async (credentials, nonce) => {
    const evidence = await signAwsEvidence({ region: REGION, nonce, now: systemClock(), credentials })
    assert(evidence.ok)
    const { mode: _, ...sent } = evidence.value
    return sent
  },
}

/** The environment as the SDKs' chains read it, with nothing of this machine's own. */
const variables = ({ accessKeyId, secretAccessKey, sessionToken }: AwsCredentials): NodeJS.ProcessEnv => ({
  AWS_ACCESS_KEY_ID: accessKeyId,
  AWS_SECRET_ACCESS_KEY: secretAccessKey,
  AWS_SESSION_TOKEN: sessionToken,
  AWS_CONFIG_FILE: join(folder, 'no-config'),
  AWS_SHARED_CREDENTIALS_FILE: join(folder, 'no-credentials'),
})

async function enrollAll(check: Check, edge: RunningEdge, keys: Keys): Promise<void> {
  for (const [name, sign] of Object.entries(SIGNERS)) {
    await check(`a role enrolls, signed by ${name}`, async () => {
      const { status, answer } = await enroll(edge, sign, keys.red)
      assert.equal(status, 200, JSON.stringify(answer))
      assert.equal(answer.tenant, 'red')
      assert.match(new X509Certificate(answer.certificate ?? '').subject, new RegExp(`OU=aws-sts:${ACCOUNT}`))
    })
    await check(`a user with a path enrolls, signed by ${name}`, async () => {
      const { status, answer } = await enroll(edge, sign, keys.user)
      assert.equal(status, 200, JSON.stringify(answer))
      assert.equal(answer.tenant, 'red')
    })
    await check(`a role without a tenant does not, signed by ${name}`, () =>
      refused(edge, sign, keys.blue, 'tenant_none'),
    )
    await check(`a wrong secret does not, signed by ${name}`, () =>
      refused(edge, sign, { ...keys.red, secretAccessKey: 'wrong' }, 'sts_signature'),
    )
  }
  await check('no line of the log holds a session token, a signature or an access key', async () => {
    const logged = edge.lines.join('\n')
    for (const { sessionToken = 'Signature=', accessKeyId } of Object.values(keys)) {
      assert.equal(logged.includes(sessionToken) || logged.includes(accessKeyId), false)
    }
  })
}

/** The caller gets one sentence, and the operator the reason. */
async function refused(edge: RunningEdge, sign: Signer, credentials: AwsCredentials, reason: string): Promise<void> {
  const { status, answer } = await enroll(edge, sign, credentials)
  assert.deepEqual([status, answer.code], [401, 'attestation_invalid'], JSON.stringify(answer))
  const line = await lineOf(edge, answer.requestId ?? '')
  assert.equal(JSON.parse(line).reason, reason)
}

async function lineOf(edge: RunningEdge, requestId: string): Promise<string> {
  for (let tries = 0; tries < 100; tries++) {
    const line = edge.lines.find((candidate) => candidate.includes(requestId))
    if (line !== undefined) return line
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  throw new Error(`no line of the log names request ${requestId}`)
}

async function enroll(edge: RunningEdge, sign: Signer, credentials: AwsCredentials) {
  const requester = await makeRequester()
  const sent = await sign(credentials, requester.challengeNonce)
  const response = await fetch(`${edge.url}/api/enroll`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(enrollBody(requester, { mode: 'aws-sts', ...sent })),
  })
  return { status: response.status, answer: (await response.json()) as Readonly<Record<string, string>> }
}
