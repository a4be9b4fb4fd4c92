// cfssl: signs any CSR for anybody and keeps nothing, so it is the line below which no authority gets.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePort } from '../../test/end-to-end/processes.ts'
import { make } from '../kinds/enrollments.ts'
import { fresh, post } from './http.ts'
import { makeAuthority, makeKeyAndCsr } from './pki.ts'
import type { Place, Product } from './product.ts'
import { startProgram } from './program.ts'

const CONFIG = {
  signing: { default: { expiry: '15m', usages: ['digital signature', 'client auth'] } },
}

export async function startCfssl({ program, folder }: Place): Promise<Product> {
  const root = await makeAuthority('cfssl root')
  writeFileSync(join(folder, 'root.pem'), root.certificate)
  writeFileSync(join(folder, 'root.key'), root.key, { mode: 0o600 })
  writeFileSync(join(folder, 'config.json'), JSON.stringify(CONFIG))
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const args = ['serve', '-address', '127.0.0.1', '-port', String(port), '-loglevel', '4']
  const files = ['-ca', 'root.pem', '-ca-key', 'root.key', '-config', 'config.json']
  const { pid, stop } = await startProgram(program, [...args, ...files], folder, () => fetch(url))
  return {
    stop,
    ways: [
      {
        pair: 'nothing proven',
        name: 'cfssl sign',
        proven: 'nothing',
        stored: 'nothing',
        servers: [pid],
        roots: root.certificate,
        prepare: (count) =>
          make(count, async (i) => {
            const { csr } = await makeKeyAndCsr(`runner-${i}`)
            const body = JSON.stringify({ certificate_request: csr })
            return async () => {
              const text = await fresh(url, undefined, (client) => post(client, '/api/v1/cfssl/sign', body))
              return { certificate: JSON.parse(text).result.certificate, csr }
            }
          }),
      },
    ],
  }
}
