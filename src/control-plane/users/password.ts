// Passwords as scrypt hashes that carry their own parameters, computed by few threads at once: each takes much memory and time.
import { randomBytes, type ScryptOptions, scrypt, timingSafeEqual } from "node:crypto";
import { AppError } from "../../core/errors.ts";

export const passwordMinLength = 12;
/** What is longer is not hashed. */
export const passwordMaxLength = 256;

type Cost = { ln: number; r: number; p: number };

/** 64 MiB and a good part of a second. */
const currentCost: Cost = { ln: 16, r: 8, p: 2 };
const hashLength = 32;
/** The thread pool they run in also writes commits to disk. */
const runningMax = 2;
const waitingMax = 32;

export type PasswordHasher = {
  /** `scrypt$ln=16,r=8,p=2$<salt>$<hash>`, both base64url. */
  hash(password: string): Promise<string>;
  /** Takes as long without a hash, so that nobody learns who has one. */
  verify(password: string, stored: string | null | undefined): Promise<boolean>;
  /** Whether the hash was made at another cost than the present one. */
  isOutdated(stored: string): boolean;
};

export function createPasswordHasher(cost: Cost = currentCost): PasswordHasher {
  const slots = new Slots();
  const derive = (password: string, salt: Buffer, { ln, r, p }: Cost): Promise<Buffer> =>
    slots.run(() => runScrypt(password, salt, { N: 2 ** ln, r, p, maxmem: 256 * 2 ** ln * r }));
  const format = ({ ln, r, p }: Cost, salt: Buffer, hash: Buffer): string =>
    `scrypt$ln=${ln},r=${r},p=${p}$${salt.toString("base64url")}$${hash.toString("base64url")}`;
  const nobody = format(cost, Buffer.alloc(16), Buffer.alloc(hashLength));
  return {
    async hash(password) {
      const salt = randomBytes(16);
      return format(cost, salt, await derive(password, salt, cost));
    },
    async verify(password, stored) {
      const known = parse(stored ?? nobody);
      const hash = await derive(password.slice(0, passwordMaxLength), known.salt, known.cost);
      const matches = hash.length === known.hash.length && timingSafeEqual(hash, known.hash);
      return matches && typeof stored === "string" && password.length <= passwordMaxLength;
    },
    isOutdated: (stored) => {
      const { ln, r, p } = parse(stored).cost;
      return ln !== cost.ln || r !== cost.r || p !== cost.p;
    },
  };
}

function parse(stored: string): { cost: Cost; salt: Buffer; hash: Buffer } {
  const match = /^scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([\w-]+)\$([\w-]+)$/.exec(stored);
  if (match === null) throw new Error("not a stored password");
  const [, ln, r, p, salt, hash] = match;
  return {
    cost: { ln: Number(ln), r: Number(r), p: Number(p) },
    salt: Buffer.from(salt!, "base64url"),
    hash: Buffer.from(hash!, "base64url"),
  };
}

function runScrypt(password: string, salt: Buffer, options: ScryptOptions): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    scrypt(password, salt, hashLength, options, (error, hash) => (error === null ? resolve(hash) : reject(error)));
  });
}

/** Lets few run at once; beyond a bounded queue it refuses. */
class Slots {
  #running = 0;
  readonly #waiting: (() => void)[] = [];

  async run<Result>(work: () => Promise<Result>): Promise<Result> {
    if (this.#running >= runningMax) {
      if (this.#waiting.length >= waitingMax) {
        throw new AppError("rate_limited", "Too many passwords are being checked; try again in a moment.", {
          details: { retryAfterMs: 5_000 },
        });
      }
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    } else this.#running++;
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#running--;
      else next();
    }
  }
}
