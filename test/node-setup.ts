// Before each test file in Node: what the file leaves open is closed after it.
import { afterAll } from 'vitest'
import { closeAll } from './end-to-end/processes.ts'

afterAll(closeAll)
