// Standby on real instances, hurried: whoever asks at whatever moment of falling asleep, sleeping and waking gets the right answer.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import WebSocket from "ws";
import { type SpawnedPlatform, spawnPlatform } from "../../src/dev/spawn-platform.ts";
import { eventually } from "../eventually.ts";
import { echoServer } from "./echo-server.ts";

const sandboxes = 10;
const callersEach = 5;
const roundsEach = 30;
/** After so many of a sandbox's callers all wait until it sleeps: on a slow machine one of them would always be there. */
const roundsBetweenNaps = 5;
/** For so long an open connection keeps its sandbox awake after it has carried something. */
const silenceMs = 500;
const names = Array.from({ length: sandboxes }, (_, index) => `nap-${index}`);

let platform: SpawnedPlatform;

before(async () => {
  platform = await spawnPlatform({ CATNAP_IDLE_TIMEOUT: "1ms", CATNAP_WARM_INSTANCES: "0" });
  await Promise.all(names.map((name) => create(name)));
});
after(() => platform[Symbol.asyncDispose]());

async function create(name: string): Promise<void> {
  await platform.call("POST", "/v0/sandboxes", { metadata: { name }, spec: { runtime: { memory: 512 } } });
  await platform.call("PUT", at(name, "/filesystem/tmp%2Fserver.py"), { content: echoServer });
  await platform.call("POST", at(name, "/process"), { name: "server", command: "python3 /tmp/server.py" });
  await eventually(async () => assert.ok((await ask(name, "GET", "/port/8000/")).ok));
}

function at(name: string, path: string): string {
  return `/run/main/sandboxes/${name}${path}`;
}

function ask(name: string, method: string, path: string, options: { body?: unknown; signal?: AbortSignal } = {}) {
  const { body, signal = AbortSignal.timeout(60_000) } = options;
  return fetch(platform.url + at(name, path), {
    method,
    signal,
    headers: { authorization: `Bearer ${platform.apiKey}`, "content-type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
}

async function stateOf(name: string): Promise<unknown> {
  return (await platform.call("GET", `/v0/sandboxes/${name}`)).state;
}

async function allAsleep(): Promise<void> {
  await eventually(async () => {
    const listed = (await platform.call("GET", "/v0/sandboxes")) as unknown as { state: string }[];
    assert.deepEqual(
      listed.map(({ state }) => state).filter((state) => state !== "STANDBY"),
      [],
    );
  });
}

type Job = (name: string, mark: string) => Promise<void>;

/** What callers do: each proves that it was done on the right sandbox and came out whole. */
const jobs: Job[] = [
  async (name, mark) => {
    const ran = await platform.call("POST", at(name, "/process"), {
      command: `echo ${mark}; exit 3`,
      waitForCompletion: true,
    });
    assert.deepEqual([ran.stdout, ran.exitCode], [`${mark}\n`, 3]);
  },
  async (name, mark) => {
    const path = at(name, `/filesystem/tmp%2F${mark}`);
    await platform.call("PUT", path, { content: mark.repeat(500) });
    assert.equal((await platform.call("GET", path)).content, mark.repeat(500));
    await platform.call("DELETE", path);
  },
  async (name, mark) => {
    const response = await ask(name, "GET", `/port/8000/${mark}`);
    assert.equal(await response.text(), `/${mark}`);
    assert.match(response.headers.get("server-timing") ?? "", /auth;dur=.*wake;dur=.*proxy;dur=.*total;dur=/);
  },
  async (name) => {
    const response = await ask(name, "GET", "/process/server");
    assert.equal(((await response.json()) as { status: string }).status, "running");
    assert.match(response.headers.get("server-timing") ?? "", /auth;dur=.*wake;dur=.*total;dur=/);
  },
];

test(`${sandboxes * callersEach} callers of ${sandboxes} sandboxes that nap all the time are all served`, async () => {
  const caller = async (name: string, number: number, first: number): Promise<void> => {
    for (let round = first; round < first + roundsBetweenNaps; round++) {
      await jobs[(number + round) % jobs.length]!(name, `mark-${number}-${round}`);
      // Pauses around the period in which sleepers are looked for: every phase of a freeze is met.
      await delay((number * 17 + round * 7) % 90);
    }
  };
  const use = async (name: string): Promise<void> => {
    for (let first = 0; first < roundsEach; first += roundsBetweenNaps) {
      await Promise.all(Array.from({ length: callersEach }, (_, number) => caller(name, number, first)));
      await eventually(async () => assert.equal(await stateOf(name), "STANDBY"));
    }
  };
  await Promise.all(names.map(use));
  const listed = (await platform.call("GET", "/v0/sandboxes/nap-0")) as { errors: unknown[] };
  assert.deepEqual(listed.errors, []);
});

test("callers that leave at any moment hold nothing", async () => {
  const abort = async (name: string, afterMs: number): Promise<void> => {
    const signal = AbortSignal.timeout(afterMs);
    const leaving = [
      ask(name, "POST", "/process", { body: { command: "sleep 5", waitForCompletion: true }, signal }),
      ask(name, "PUT", "/filesystem/tmp%2Fhalf", { body: { content: "x".repeat(200_000) }, signal }),
      ask(name, "GET", "/process/server/logs/stream", { signal }).then((response) => response.text()),
      ask(name, "GET", "/port/8000/slow", { signal }),
    ];
    await Promise.allSettled(leaving);
  };
  for (let round = 0; round < 10; round++) {
    await Promise.all(names.map((name, index) => abort(name, (round * 10 + index) % 40)));
  }
  await allAsleep();
  await Promise.all(names.map((name) => jobs[0]!(name, "still-there")));
});

type Use = {
  end(): Promise<void> | void;
  /** When what was last carried was written; without it nothing has to be carried. */
  carriedAt?(): number;
};

/** Ways to use a sandbox that last. */
const lasting: Record<string, (name: string) => Promise<Use>> = {
  "a log that is followed and written": async (name) => {
    await platform.call("POST", at(name, "/process"), {
      name: "ticks",
      command: "while sleep 0.1; do date +tick%s%3N; done",
    });
    const leaving = new AbortController();
    const followed = await ask(name, "GET", "/process/ticks/logs/stream", { signal: leaving.signal });
    let carriedAt = 0;
    const reading = (async () => {
      let text = "";
      for await (const piece of followed.body!.pipeThrough(new TextDecoderStream())) {
        text += piece;
        carriedAt = Number(/.*tick(\d+)\n/s.exec(text)?.[1] ?? 0);
      }
    })().catch((error: unknown) => assert.ok(leaving.signal.aborted, String(error)));
    return {
      carriedAt: () => carriedAt,
      async end() {
        leaving.abort();
        await reading;
        await platform.call("DELETE", at(name, "/process/ticks/kill"));
      },
    };
  },
  "a command that is waited for": async (name) => {
    const body = { name: "waited", command: "while [ ! -e /tmp/end ]; do sleep 0.05; done", waitForCompletion: true };
    const waiting = ask(name, "POST", "/process", { body });
    return {
      async end() {
        await platform.call("PUT", at(name, "/filesystem/tmp%2Fend"), { content: "" });
        assert.equal(((await (await waiting).json()) as { exitCode: number }).exitCode, 0);
      },
    };
  },
  "a keepAlive process": async (name) => {
    await platform.call("POST", at(name, "/process"), { name: "kept", command: "sleep 100", keepAlive: true });
    return { end: async () => void (await platform.call("DELETE", at(name, "/process/kept/kill"))) };
  },
  "a request to a server inside that takes its time": async (name) => {
    const leaving = new AbortController();
    const slow = ask(name, "GET", "/port/8000/slow", { signal: leaving.signal }).catch(() => undefined);
    return {
      async end() {
        leaving.abort();
        await slow;
      },
    };
  },
  "a WebSocket with messages": async (name) => {
    const socket = new WebSocket(`${platform.url.replace("http", "ws")}${at(name, "/port/8000/ws")}`, {
      headers: { authorization: `Bearer ${platform.apiKey}` },
    });
    await new Promise((resolve, reject) => socket.once("open", resolve).once("error", reject));
    let carriedAt = 0;
    socket.on("message", (data) => {
      carriedAt = Number(String(data));
    });
    const talking = setInterval(() => socket.send(String(Date.now())), 100);
    return {
      carriedAt: () => carriedAt,
      end() {
        clearInterval(talking);
        socket.terminate();
      },
    };
  },
};

for (const [what, begin] of Object.entries(lasting)) {
  test(`${what} keeps the sandbox awake, and it sleeps afterwards`, async () => {
    const name = "nap-0";
    const { end, carriedAt = Date.now } = await begin(name);
    try {
      // What is under way may not have arrived yet.
      await eventually(async () => assert.equal(await stateOf(name), "RUNNING"));
      // Twenty times as long as the platform takes to notice that nobody is there.
      let looks = 0;
      for (let tries = 0; tries < 5_000 && looks < 100; tries++) {
        const state = await stateOf(name);
        // On a slow machine what is written every 100 ms may take longer than the sandbox stays awake for it.
        if (Date.now() - carriedAt() < silenceMs) {
          assert.equal(state, "RUNNING");
          looks++;
        }
        await delay(10);
      }
      assert.equal(looks, 100);
    } finally {
      await end();
    }
    await eventually(async () => assert.equal(await stateOf(name), "STANDBY"));
  });
}
