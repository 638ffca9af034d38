// Many callers at once, through the whole platform: creating, deleting and using sandboxes at the same moment ends in one clear state.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { type SpawnedPlatform, spawnPlatform } from "../../src/dev/spawn-platform.ts";
import { readRecords } from "../../src/host/instances/record.ts";
import { findLeftovers } from "../drivers/leftovers.ts";
import { eventually } from "../eventually.ts";

let platform: SpawnedPlatform;

before(async () => {
  platform = await spawnPlatform({ CATNAP_IDLE_TIMEOUT: "20ms", CATNAP_WARM_INSTANCES: "2" });
  await platform.warmed();
});
after(() => platform[Symbol.asyncDispose]());

type Answer = { status: number; timing: string; body: Record<string, unknown> };

async function ask(
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const response = await fetch(platform.url + path, {
    method,
    signal: AbortSignal.timeout(300_000),
    headers: {
      authorization: `Bearer ${platform.apiKey}`,
      ...(body !== undefined && { "content-type": "application/json" }),
      ...headers,
    },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await response.text();
  return {
    status: response.status,
    timing: response.headers.get("server-timing") ?? "",
    body: (text.startsWith("{") || text.startsWith("[") ? JSON.parse(text) : { text }) as Answer["body"],
  };
}

const create = (name: string, headers?: Record<string, string>): Promise<Answer> =>
  ask("POST", "/v0/sandboxes", { metadata: { name }, spec: { runtime: { memory: 256 } } }, headers);
const remove = (name: string): Promise<Answer> => ask("DELETE", `/v0/sandboxes/${name}`);
const run = (name: string, command: string): Promise<Answer> =>
  ask("POST", `/run/main/sandboxes/${name}/process`, { command, waitForCompletion: true });
const statuses = (answers: readonly Answer[]): number[] => answers.map(({ status }) => status);

/** Nothing on the machine but what the platform says exists, once it has had time to tidy up. */
async function settled(alive: readonly string[]): Promise<void> {
  await eventually(async () => {
    const records = readRecords(join(platform.dataDir, "instances"));
    const claimed = records.flatMap(({ record }) =>
      typeof record === "string" ? [] : (record.claim?.sandboxName ?? []),
    );
    assert.deepEqual(claimed.sort(), [...alive].sort());
    const expected = records.map(({ id }) => id);
    const { dataDir, env } = platform;
    assert.deepEqual(await findLeftovers({ dataDir, cgroupParent: env.CATNAP_CGROUP_PARENT!, expected }), []);
    const listed = (await ask("GET", "/v0/sandboxes?limit=200")).body as unknown as { status: string }[];
    assert.equal(listed.filter(({ status }) => status === "DEPLOYED").length, alive.length);
  });
}

test("a hundred sandboxes are created at once, all usable and all different, and deleted at once", async () => {
  const names = Array.from({ length: 100 }, (_, index) => `many-${index}`);
  const created = await Promise.all(names.map((name) => create(name)));
  assert.deepEqual(new Set(statuses(created)), new Set([200]));
  for (const { timing } of created) assert.match(timing, /^auth;dur=.*store;dur=.*claim;dur=.*total;dur=/);
  const ran = await Promise.all(names.map((name) => run(name, `echo ${name} > /root/name; cat /root/name`)));
  assert.deepEqual(
    ran.map(({ body }) => body.stdout),
    names.map((name) => `${name}\n`),
  );
  const again = await Promise.all(names.map((name) => run(name, "cat /root/name")));
  assert.deepEqual(
    again.map(({ body }) => body.stdout),
    names.map((name) => `${name}\n`),
  );
  const deleted = await Promise.all(names.map((name) => remove(name)));
  assert.deepEqual(new Set(statuses(deleted)), new Set([200]));
  await settled([]);
});

test("of many creations of one name one succeeds", async () => {
  const answers = await Promise.all(Array.from({ length: 20 }, () => create("wanted")));
  assert.equal(answers.filter(({ status }) => status === 200).length, 1);
  assert.equal(
    answers.filter(({ status, body }) => status === 409 && body.code === "SANDBOX_ALREADY_EXISTS").length,
    19,
  );
  assert.equal((await run("wanted", "true")).body.exitCode, 0);
  await remove("wanted");
  await settled([]);
});

test("creations with one Idempotency-Key make one sandbox and get the same answer", async () => {
  const headers = { "idempotency-key": "once-and-only-once" };
  const answers = await Promise.all(Array.from({ length: 20 }, () => create("keyed", headers)));
  const successful = answers.filter(({ status }) => status === 200);
  assert.ok(successful.length >= 1);
  assert.deepEqual(
    new Set(statuses(answers.filter((one) => !successful.includes(one)))),
    new Set(answers.length === successful.length ? [] : [409]),
  );
  const replayed = await create("keyed", headers);
  assert.equal(replayed.status, 200);
  const createdAt = new Set(
    [...successful, replayed].map(({ body }) => (body.metadata as { createdAt: string }).createdAt),
  );
  assert.equal(createdAt.size, 1);
  await remove("keyed");
  await settled([]);
});

test("creating and deleting one name at the same time ends with a sandbox that works or with none", async () => {
  for (let round = 0; round < 8; round++) {
    const acts = [
      create("fickle"),
      delay(round * 7).then(() => remove("fickle")),
      delay(round * 5).then(() => create("fickle")),
    ];
    for (const { status, body } of await Promise.all(acts)) {
      assert.ok([200, 404, 409].includes(status), `${status}: ${JSON.stringify(body)}`);
    }
    const found = await ask("GET", "/v0/sandboxes/fickle");
    if (found.status === 200 && found.body.status === "DEPLOYED") {
      assert.equal((await run("fickle", "echo here")).body.stdout, "here\n");
      assert.equal((await remove("fickle")).status, 200);
    }
    assert.equal((await create("fickle")).status, 200, "the name is free again");
    assert.equal((await remove("fickle")).status, 200);
  }
  await settled([]);
});

test("a sandbox is deleted in whatever it is doing, and everybody who uses it is told", async () => {
  const asleep = async (name: string): Promise<void> => {
    await eventually(async () => assert.equal((await ask("GET", `/v0/sandboxes/${name}`)).body.state, "STANDBY"));
  };
  const started = async (name: string): Promise<void> => {
    await eventually(async () => {
      const { body } = await ask("GET", `/run/main/sandboxes/${name}/process`);
      assert.ok((body as unknown as unknown[]).length > 0);
    });
  };
  const uses: Record<string, (name: string) => Promise<Promise<Answer>[]>> = {
    sleeping: async (name) => {
      await asleep(name);
      return [];
    },
    waking: async (name) => {
      await asleep(name);
      return Array.from({ length: 20 }, () => run(name, "true"));
    },
    waiting: async (name) => {
      const waiting = run(name, "sleep 1000");
      await started(name);
      return [waiting];
    },
    streaming: async (name) => {
      await ask("POST", `/run/main/sandboxes/${name}/process`, { name: "long", command: "while :; do echo x; done" });
      return [ask("GET", `/run/main/sandboxes/${name}/process/long/logs/stream`)];
    },
    serving: async (name) => {
      await ask("POST", `/run/main/sandboxes/${name}/process`, { command: "python3 -m http.server 8000" });
      const get = (): Promise<Answer> => ask("GET", `/run/main/sandboxes/${name}/port/8000/`);
      await eventually(async () => assert.equal((await get()).status, 200));
      return Array.from({ length: 20 }, get);
    },
    busy: async (name) => {
      const busy = Array.from({ length: 20 }, () => run(name, "sleep 0.1"));
      await started(name);
      return busy;
    },
  };
  for (const [name, use] of Object.entries(uses)) {
    assert.equal((await create(name)).status, 200);
    const using = Promise.allSettled(await use(name));
    assert.equal((await remove(name)).status, 200);
    assert.equal((await ask("GET", `/run/main/sandboxes/${name}/health`)).status, 404);
    for (const outcome of await using) {
      // A streamed answer is cut off; every other one is whole and says what became of it.
      if (outcome.status === "rejected") assert.equal(name, "streaming", String(outcome.reason));
      else assert.ok([200, 404, 502, 503].includes(outcome.value.status), JSON.stringify(outcome.value));
    }
  }
  await settled([]);
});

test("deletions of one sandbox at the same time delete it once", async () => {
  await create("unwanted");
  const answers = await Promise.all(Array.from({ length: 50 }, () => remove("unwanted")));
  assert.ok(answers.some(({ status }) => status === 200));
  assert.ok(answers.every(({ status }) => status === 200 || status === 404));
  await settled([]);
});
