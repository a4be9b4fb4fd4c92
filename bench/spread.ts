// The spread of a figure over the runs.

export interface Spread {
  readonly min: number
  readonly median: number
  readonly max: number
}

export function spreadOf(figures: readonly number[], digits = 0): Spread {
  const sorted = figures.toSorted((a, b) => a - b)
  const rounded = (value: number | undefined): number => Number((value ?? Number.NaN).toFixed(digits))
  return { min: rounded(sorted[0]), median: rounded(quantile(sorted, 0.5)), max: rounded(sorted.at(-1)) }
}

/** Of numbers in order: the least that is not below the given share of them. */
export const quantile = (sorted: readonly number[], share: number): number =>
  sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN
