// `npm run bench:fleet`: plays the renewals of a million runners with the runner's own schedule, in virtual time. Says what a
// ten-minute outage and a restart of all would cause.

import { milliseconds } from '../src/protocol/time.ts'
import { benchCommand, runCommand, wholeNumber } from './command.ts'
import { type OutageFigures, outageFigures, restartFigures } from './fleet-figures.ts'

const SEED = 11

interface Options {
  readonly json?: true
  readonly runners: number
}

await runCommand(
  benchCommand(
    'bench:fleet',
    'Plays the renewals of many runners in virtual time, with an outage and a restart of all.',
  )
    .option('--json', 'print one object in one line')
    .option('--runners <n>', 'how many', wholeNumber(1000, 10_000_000), 1_000_000)
    .action(play),
)

function play({ json, runners }: Options): void {
  const figures = {
    runners,
    noAnswer: outageFigures(runners, null, SEED),
    retryAfter5: outageFigures(runners, milliseconds(5000), SEED),
    restart: restartFigures(runners, SEED),
  }
  if (json) {
    console.log(JSON.stringify(figures))
    return
  }
  console.log(`${runners} runners, certificates of 15 minutes, 5 minutes of grace; peaks are those of 10 seconds\n`)
  printOutage('10 minutes without an answer', figures.noAnswer)
  printOutage('10 minutes of 503 with Retry-After: 5', figures.retryAfter5)
  console.log('all runners restarted within 10 seconds')
  row('peak over mean, interval by interval', figures.restart.peakOverMean.map(ratio).join(' '))
}

function printOutage(name: string, { steady, triesOverSteady, lost, ...after }: OutageFigures): void {
  const { catchingUp, afterwards } = after
  console.log(name)
  row('before: renewals a second', Math.round(steady.mean).toString())
  row('before: peak over mean', ratio(steady.peakOverMean))
  row('meanwhile: tries over the mean before', `${ratio(triesOverSteady.mean)}, peak ${ratio(triesOverSteady.peak)}`)
  row('runners that lost their enrollment', lost.toString())
  row('without a certificate, on average', `${Math.round(after.secondsWithoutCertificate)} s`)
  row('until all have renewed', `${catchingUp.seconds} s`)
  row('until then: peak over mean', ratio(catchingUp.peakOverMean))
  row('until then: peak over the mean before', ratio(catchingUp.peakOverSteady))
  row('from then on: peak over mean', ratio(afterwards.peakOverMean))
  console.log()
}

function row(what: string, value: string): void {
  console.log(`  ${what.padEnd(40)}${value}`)
}

function ratio(value: number): string {
  return value.toFixed(2)
}
