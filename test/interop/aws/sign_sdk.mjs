// Prints the GetCallerIdentity request that the AWS SDK for JavaScript sends. argv: folder of the SDK, region, nonce.
// Credentials: the SDK's own chain.
import { createRequire } from 'node:module'
import { join } from 'node:path'

const [folder, region, nonce] = process.argv.slice(2)
const { STSClient, GetCallerIdentityCommand } = createRequire(join(folder, 'package.json'))('@aws-sdk/client-sts')

const requestHandler = {
  handle: async ({ headers, body }) => {
    console.log(JSON.stringify({ region, headers, body }))
    process.exit(0)
  },
}
const client = new STSClient({ region, requestHandler })
const addNonce = (next) => (args) => {
  args.request.headers['X-Muster-Nonce'] = nonce
  return next(args)
}
client.middlewareStack.add(addNonce, { step: 'build' })
await client.send(new GetCallerIdentityCommand({}))
