// Every field that the trust file may have, by the object that it stands in: what the reader takes and the schema shows.

export const FIELDS = {
  file: ['trustDomain', 'alsoTrust', 'certificate', 'aws', 'clusters', 'bootstrapTenant', 'tenants'],
  certificate: ['lifetime', 'reattest', 'onClone'],
  aws: ['regions'],
  cluster: [
    'name',
    'issuer',
    'eks',
    'gke',
    'audience',
    'namespace',
    'serviceAccount',
    'maxTokenLifetime',
    'jwksURI',
    'jwksFile',
    'caFile',
    'binding',
    'node',
    'deny',
  ],
  eks: ['region', 'id'],
  gke: ['project', 'location', 'cluster'],
  deny: ['nodes'],
  tenant: ['slug', 'aws', 'kubernetes'],
  awsMapping: ['account', 'role', 'user'],
  kubernetesMapping: ['cluster', 'project', 'namespace', 'serviceAccount'],
} as const

export type Place = keyof typeof FIELDS
export type FieldOf<P extends Place> = (typeof FIELDS)[P][number]
