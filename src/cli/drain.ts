// `muster drain`: asks runners to finish what they do and to exit.

import { systemClock, toEpochSeconds } from '../protocol/time.ts'
import { type NamingOptions, named, naming } from './bans.ts'
import { CommandError, command, print } from './command.ts'

export const drainCommand = () =>
  naming(command('drain', 'ask runners to finish what they do and to exit'))
    .addHelpText(
      'after',
      '\nName exactly one. Connected runners are asked within a minute, others when they next connect.',
    )
    .action((options: NamingOptions) => drain(options))

async function drain(options: NamingOptions): Promise<void> {
  const whom = named(options)
  const { withDatabase } = await import('./store/database.ts')
  const { requestDrain } = await import('../worker/store/bans.ts')
  const now = toEpochSeconds(systemClock())
  const enrollments = await withDatabase(options, (db) => requestDrain(db, whom, now))
  if (enrollments.length === 0) {
    throw new CommandError(`no live runner has the ${whom.kind} ${JSON.stringify(whom.value)}: see muster events`)
  }
  print(options, { enrollments }, () =>
    [...enrollments, `asked of ${enrollments.length}; those that are connected hear of it within a minute`].join('\n'),
  )
}
