// Pauses that grow with every failure in a row, so that what cannot succeed is not tried all the time.
export class Backoff {
  readonly #firstMs: number;
  readonly #maxMs: number;
  #failures = 0;
  #untilMs = 0;

  constructor({ firstMs, maxMs }: { firstMs: number; maxMs: number }) {
    this.#firstMs = firstMs;
    this.#maxMs = maxMs;
  }

  /** How much longer to wait before the next try; 0 when it may be now. */
  get remainingMs(): number {
    return Math.max(0, this.#untilMs - performance.now());
  }

  failed(): void {
    this.#untilMs = performance.now() + Math.min(this.#maxMs, this.#firstMs * 2 ** this.#failures);
    this.#failures++;
  }

  succeeded(): void {
    this.#failures = 0;
    this.#untilMs = 0;
  }
}
