// Says what a start is doing when it takes longer than a person waits without wondering; a quick one stays quiet.

const patienceMs = 1_000;

export class SlowSteps implements Disposable {
  readonly #say: (text: string) => void;
  #timer: NodeJS.Timeout | undefined;

  constructor(say: (text: string) => void) {
    this.#say = say;
  }

  /** From now on this is what is being done. */
  begin(what: string): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#say(`  ${what}\n`), patienceMs).unref();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }
}
