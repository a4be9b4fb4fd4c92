// Runs before each test file in Node: closes after the file what it left open.
import { afterAll } from 'vitest'
import { closeAll } from './end-to-end/processes.ts'

afterAll(closeAll)
