// Opens D1 for tests as both sides have it: with drizzle's query builder, as the CLI, and as the Worker. Not a test itself.
import { drizzle } from 'drizzle-orm/d1'
import { openDatabase as openAsWorker } from '../../../src/worker/store/d1.ts'

export const openDatabase = (d1: D1Database) => Object.assign(drizzle(d1), openAsWorker(d1))
