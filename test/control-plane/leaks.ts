// Every test of the control plane is a test for leaks: what requests name as secret, and what answers hand out once, must be found
// nowhere else: not in the database, not in the files, not in the logs, not in any other answer.
import assert from "node:assert/strict";
import type { Answer, CallOptions } from "./harness.ts";

/** Shorter ones, and those made of one character, also stand in other places by chance. */
const secretMinLength = 8;
/** Members of bodies, however deep, whose texts are secrets. */
const secretMembers = new Set(["password", "client_secret", "apiKey", "access_token", "refresh_token", "token"]);
const secretMaps = new Set(["secret", "secrets"]);

export class LeakWatch {
  readonly #secrets = new Set<string>();
  readonly #answers: { to: string; text: string; given: ReadonlySet<string> }[] = [];

  /** Remembers what a request put in and an answer gave out. */
  saw(method: string, path: string, { body, key }: CallOptions, answer: Answer): void {
    const before = this.#secrets.size;
    this.#collect(body);
    if (typeof key === "string") this.#add(key);
    const given = new Set<string>();
    collectTexts(answer.body, given);
    for (const secret of given) this.#add(secret);
    if (path.includes("show_secrets=true")) return;
    // A secret stands in the answer that hands it out, but for tokens of previews, which only their own operations hand out.
    const isOfTokens = /^(?:GET|POST) \/v0\/sandboxes\/[^/]+\/previews\/[^/]+\/tokens$/.test(`${method} ${path}`);
    if (!isOfTokens) for (const secret of given) if (secret.startsWith("pt_")) given.delete(secret);
    this.#answers.push({ to: `${method} ${path} (${before})`, text: answer.text, given });
  }

  check({ stored, logged }: { stored: Buffer; logged: string }): void {
    const text = stored.toString("latin1");
    for (const secret of this.#secrets) {
      const raw = Buffer.from(secret).toString("latin1");
      assert.ok(!text.includes(raw), `what is stored has the secret ${secret}`);
      const escaped = JSON.stringify(secret).slice(1, -1);
      assert.ok(!logged.includes(escaped), `the log has the secret ${secret}`);
      const answer = this.#answers.find(({ given, text }) => !given.has(secret) && text.includes(escaped));
      assert.equal(answer?.to, undefined, `an answer has the secret ${secret}`);
    }
  }

  #add(secret: string): void {
    if (secret.length >= secretMinLength && new Set(secret).size > 3) this.#secrets.add(secret);
  }

  #collect(body: unknown): void {
    const found = new Set<string>();
    collectTexts(body, found);
    for (const secret of found) this.#add(secret);
  }
}

function collectTexts(value: unknown, found: Set<string>): void {
  if (typeof value !== "object" || value === null) return;
  const { secret, value: own } = value as { secret?: unknown; value?: unknown };
  if (secret === true && typeof own === "string") found.add(own);
  for (const [name, member] of Object.entries(value)) {
    if (secretMembers.has(name) && typeof member === "string") found.add(member);
    else if (secretMaps.has(name) && typeof member === "object" && member !== null) {
      for (const text of Object.values(member)) if (typeof text === "string") found.add(text);
    } else collectTexts(member, found);
  }
}
