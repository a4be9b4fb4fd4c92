// Builds the npm package, and says what memory the runner in it takes. Not a test itself.
import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createCa, createServerCertificate } from '../../src/cli/ca/create.ts'
import { epochSeconds } from '../../src/protocol/time.ts'
import { TUNNEL_CLOSE } from '../../src/protocol/tunnel.ts'
import { FakeControlPlane } from '../fakes/control-plane.ts'
import { PROJECT, spawnNode } from './processes.ts'

/** Builds the package into a new folder, which the caller removes; its program is `dist/cli/main.js` there. */
export function buildPackage(): string {
  // Inside the project, so that dependencies are found; ignored by git.
  mkdirSync(join(PROJECT, '.muster'), { recursive: true })
  const folder = mkdtempSync(join(PROJECT, '.muster/package-'))
  copyFileSync(join(PROJECT, 'package.json'), join(folder, 'package.json'))
  const { scripts } = JSON.parse(readFileSync(join(PROJECT, 'package.json'), 'utf8'))
  const build = scripts.build
    .replace('rm -rf dist && ', '')
    .replace('--outDir dist', `--outDir ${join(folder, 'dist')}`)
  const env = { ...process.env, PATH: `node_modules/.bin:${process.env.PATH}` }
  execFileSync('sh', ['-c', build], { cwd: PROJECT, env })
  return folder
}

const RENEWALS = 5

/** Resident memory in bytes: once a runner is ready, and after 5 renewals. Over TLS, with a CA of its own. Linux only. */
export async function memoryOfRunner(main: string): Promise<{ readonly ready: number; readonly renewed: number }> {
  const now = epochSeconds(Math.floor(Date.now() / 1000))
  const ca = await createCa({ development: true, now })
  const { key, certificate } = await createServerCertificate({ key: ca.issuingKey, certificate: ca.issuing }, now)
  const plane = await FakeControlPlane.start({ key, cert: certificate + ca.issuing })
  const runner = spawnNode(main, ['runner'], {
    stderr: 'inherit',
    env: { RUNNER_ENROLL_URL: plane.url, RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t', RUNNER_CA_PEM: ca.root },
  })
  const memory = () => {
    const status = readFileSync(`/proc/${runner.pid}/status`, 'utf8')
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024
  }
  try {
    return await new Promise((resolve, reject) => {
      let ready = 0
      plane.onHello = (socket) => {
        plane.sendReady(socket)
        // The answer to a ping comes when the frame before it was taken.
        socket.ping()
        socket.once('pong', () => {
          ready ||= memory()
          if (plane.sockets.length > RENEWALS) resolve({ ready, renewed: memory() })
          // The runner takes its certificate for expired: it renews, and connects again.
          else socket.close(TUNNEL_CLOSE.expired)
        })
      }
      runner.once('exit', (code) => reject(new Error(`the runner ended with ${code}`)))
    })
  } finally {
    runner.kill('SIGKILL')
    await plane.stop()
  }
}
