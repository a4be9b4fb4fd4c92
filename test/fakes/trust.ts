// Compiled trust files for tests: a default one, which a test changes in part.
import { hours, minutes, seconds } from '../../src/protocol/time.ts'
import type { CompiledTrust } from '../../src/trust/compiled.ts'
import type { Cluster } from '../../src/trust/modes/kubernetes.ts'

export const trustWith = (changes: Partial<CompiledTrust> = {}): CompiledTrust => ({
  version: 1,
  hash: 'a'.repeat(64),
  trustDomain: 'rootpilot',
  alsoTrust: [],
  certificate: { lifetime: minutes(15), reattest: hours(24), onClone: 'end' },
  aws: { regions: ['us-east-1', 'us-west-2', 'sa-east-1'] },
  clusters: [],
  bootstrapTenant: 'default',
  tenants: ['default', 'acme', 'globex'],
  shards: [],
  awsMappings: [],
  kubernetesMappings: [],
  ...changes,
})

export const clusterWith = (changes: Partial<Cluster> = {}): Cluster => ({
  name: 'prod',
  mode: 'kubernetes',
  issuer: 'https://issuer.example.com',
  audiences: ['rootpilot-enroll'],
  maxTokenLifetime: seconds(3600),
  keys: { from: 'discovery' },
  ca: null,
  binding: null,
  workload: { namespace: 'runners', serviceAccount: 'runner' },
  nodeOptional: false,
  denyNodes: [],
  ...changes,
})
