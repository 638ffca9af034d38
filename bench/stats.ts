// Samples and what is said about them: medians and tails, because machines are noisy and averages hide it.

export type Summary = { count: number; median: number; p90: number; p99: number; min: number; max: number };

/** Order statistics of samples in one unit; the p99 of fewer than 100 samples is their maximum. */
export function summarize(samples: readonly number[]): Summary {
  if (samples.length === 0) throw new Error("nothing was measured");
  const sorted = [...samples].sort((a, b) => a - b);
  const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)]!;
  return {
    count: sorted.length,
    median: at(0.5),
    p90: at(0.9),
    p99: at(0.99),
    min: sorted[0]!,
    max: sorted[sorted.length - 1]!,
  };
}

/** Runs `work` `count` times one after another and returns how long each took, in milliseconds. */
export async function sample(count: number, work: (index: number) => Promise<unknown>): Promise<number[]> {
  const samples: number[] = [];
  for (let index = 0; index < count; index++) {
    const startedAt = performance.now();
    await work(index);
    samples.push(performance.now() - startedAt);
  }
  return samples;
}
