// Shows what set-up is doing: a line that is rewritten on a terminal, plain lines with a sign of life now and then elsewhere.
const signOfLifeMs = 10_000;

export class Progress {
  #startedAt = performance.now();
  #stepCount = 0;
  #current = 0;
  #out = process.stderr;

  /** @param {number} stepCount */
  constructor(stepCount) {
    this.#stepCount = stepCount;
  }

  get elapsedMs() {
    return performance.now() - this.#startedAt;
  }

  /**
   * Runs one slow step. `work` receives a function that tells what the step is at; detail is only shown on a terminal.
   * @template T
   * @param {string} title
   * @param {(detail: (text: string) => void) => Promise<T>} work
   * @returns {Promise<T>}
   */
  async step(title, work) {
    this.#current = Math.min(this.#current + 1, this.#stepCount);
    const label = `[${this.#current}/${this.#stepCount}] ${title}`;
    const startedAt = performance.now();
    const seconds = () => `${((performance.now() - startedAt) / 1000).toFixed(0)} s`;
    let detail = "";
    const show = () => {
      if (this.#out.isTTY) this.#rewrite(`${label} · ${seconds()}${detail === "" ? "" : ` · ${detail}`}`);
      else this.#out.write(`${label} · ${seconds()}\n`);
    };
    if (this.#out.isTTY) show();
    else this.#out.write(`${label}\n`);
    const timer = setInterval(show, this.#out.isTTY ? 200 : signOfLifeMs);
    try {
      const result = await work((text) => {
        detail = text.trim();
      });
      this.#end(`${label} · done in ${seconds()}`);
      return result;
    } catch (error) {
      this.#end(`${label} · failed after ${seconds()}`);
      throw error;
    } finally {
      clearInterval(timer);
    }
  }

  /** @param {string} text */
  #rewrite(text) {
    const width = Math.max(20, (this.#out.columns ?? 80) - 1);
    const plain = text.replace(/[\x00-\x1f\x7f]/g, " ").slice(0, width);
    this.#out.write(`\r\x1b[2K${plain}`);
  }

  /** @param {string} text */
  #end(text) {
    if (this.#out.isTTY) this.#out.write(`\r\x1b[2K${text}\n`);
    else this.#out.write(`${text}\n`);
  }
}
