// Where the project lies: the folder with wrangler.toml, the Worker's sources and the migrations.

import { fileURLToPath } from 'node:url'

export const PROJECT = fileURLToPath(new URL('../../../', import.meta.url))
