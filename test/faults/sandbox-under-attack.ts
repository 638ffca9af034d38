// A sandbox that fault tests attack: requests that can be dropped half-way, and what of it and of the daemon the machine sees from outside.
import assert from "node:assert/strict";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { Agent, type ClientRequest, type IncomingMessage, type RequestOptions, request } from "node:http";
import { join } from "node:path";
import type { SpawnedPlatform } from "../../src/dev/spawn-platform.ts";
import { type InstanceRecord, readRecords } from "../../src/host/instances/record.ts";

type Json = Record<string, unknown>;

export class SandboxUnderAttack {
  readonly platform: SpawnedPlatform;
  readonly name: string;

  private constructor(platform: SpawnedPlatform, name: string) {
    this.platform = platform;
    this.name = name;
  }

  static async create(platform: SpawnedPlatform, name: string, memory = 512): Promise<SandboxUnderAttack> {
    await platform.call("POST", "/v0/sandboxes", { metadata: { name }, spec: { runtime: { memory } } });
    return new SandboxUnderAttack(platform, name);
  }

  at(path: string): string {
    return `/run/main/sandboxes/${this.name}${path}`;
  }

  /** On a connection of its own, which is closed with the answer: none that is kept must look like one that leaks. */
  async call(method: string, path: string, body?: unknown): Promise<Json> {
    const opened = this.open(
      method,
      path,
      body === undefined ? {} : { headers: { "content-type": "application/json" } },
    );
    opened.end(body === undefined ? undefined : JSON.stringify(body));
    const answer = await answerOf(opened);
    const text = await textOf(answer);
    if (answer.statusCode !== 200) throw new Error(`${method} ${path} answered ${answer.statusCode}: ${text}`);
    return JSON.parse(text) as Json;
  }

  run(command: string): Promise<Json> {
    return this.call("POST", "/process", { command, waitForCompletion: true });
  }

  async status(): Promise<{ state: string; status: string; errors: { code: string; message: string }[] }> {
    return (await this.platform.call("GET", `/v0/sandboxes/${this.name}`)) as never;
  }

  delete(): Promise<Json> {
    return this.platform.call("DELETE", `/v0/sandboxes/${this.name}`);
  }

  /** A request on a connection of its own, whose errors are nobody's: it is made to be dropped. */
  open(method: string, path: string, { headers, ...options }: RequestOptions = {}): ClientRequest {
    const agent = new Agent({ keepAlive: false });
    const opened = request(this.platform.url + this.at(path), {
      method,
      agent,
      headers: { authorization: `Bearer ${this.platform.apiKey}`, ...(headers as Record<string, string>) },
      ...options,
    });
    return opened.on("error", () => undefined);
  }

  record(): InstanceRecord {
    const found = readRecords(join(this.platform.dataDir, "instances")).flatMap(({ record }) =>
      typeof record === "string" ? [] : [record],
    );
    return found.find(({ claim }) => claim?.sandboxName === this.name) ?? assert.fail(`${this.name} has no instance`);
  }

  /** The pid of its init, as the machine sees it. */
  initPid(): number {
    const made = join(this.platform.dataDir, "instances", this.record().id, "driver/made");
    return (JSON.parse(readFileSync(made, "utf8")) as { pid: number }).pid;
  }

  /** Names of its processes as the machine sees them, zombies marked by a `Z`. */
  processes(): string[] {
    const namespace = readlinkSync(`/proc/${this.initPid()}/ns/pid`);
    return readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      .flatMap((pid) => {
        try {
          if (readlinkSync(`/proc/${pid}/ns/pid`) !== namespace) return [];
          const [, comm, state] = /\((.*)\) (\w)/s.exec(readFileSync(`/proc/${pid}/stat`, "utf8"))!;
          return [state === "Z" ? `${comm} Z` : comm!];
        } catch {
          return [];
        }
      })
      .sort();
  }
}

export function countDescriptors(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

/** What must be again as it was once everybody has left. */
export type Footprint = { daemonDescriptors: number; initDescriptors: number; processes: string[] };

export function footprint(sandbox: SandboxUnderAttack): Footprint {
  return {
    daemonDescriptors: countDescriptors(sandbox.platform.pid),
    initDescriptors: countDescriptors(sandbox.initPid()),
    processes: sandbox.processes(),
  };
}

/** Fails while something of those who left is still there. Fewer than before are fine: what was held then may have been let go of meanwhile. */
export function assertNothingLeft(sandbox: SandboxUnderAttack, before: Footprint): void {
  const now = footprint(sandbox);
  const extra = now.processes.filter((name) => {
    const known = before.processes.indexOf(name);
    if (known >= 0) before = { ...before, processes: before.processes.toSpliced(known, 1) };
    return known < 0;
  });
  assert.deepEqual(extra, [], "processes that were not there before");
  assert.ok(
    now.initDescriptors <= before.initDescriptors,
    `the init holds ${now.initDescriptors} descriptors, ${before.initDescriptors} before`,
  );
  assert.ok(
    now.daemonDescriptors <= before.daemonDescriptors,
    `the daemon holds ${now.daemonDescriptors} descriptors, ${before.daemonDescriptors} before`,
  );
}

/** Resolves with the answer's head; the request must have been ended. */
export function answerOf(opened: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    opened.once("response", resolve);
    opened.once("error", reject);
  });
}

export async function textOf(answer: AsyncIterable<Buffer>): Promise<string> {
  const pieces: Buffer[] = [];
  for await (const piece of answer) pieces.push(piece);
  return Buffer.concat(pieces).toString();
}

/** Numbers that look random and are the same for the same seed. */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** The median of so many requests one after another, in milliseconds: printed, never judged. */
export async function latencies(count: number, ask: () => Promise<unknown>): Promise<number> {
  const samples: number[] = [];
  for (let index = 0; index < count; index++) {
    const startedAt = performance.now();
    await ask();
    samples.push(performance.now() - startedAt);
  }
  return samples.sort((a, b) => a - b)[Math.floor(count / 2)]!;
}
