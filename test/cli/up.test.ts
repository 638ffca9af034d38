// `up` around a platform: what is shown and kept at the first and later starts, what keeps it from starting, and stopping.
import assert from "node:assert/strict";
import { chmodSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { PlatformOptions, StartPlatform } from "../../src/contract/platform.ts";
import { AppError } from "../../src/core/errors.ts";
import { eventually } from "../eventually.ts";
import { cli } from "./run-cli.ts";
import { type StandIn, standIn, untilReady, up } from "./up-stand-in.ts";

test("the first start shows the key once, keeps it for its owner and ends with three lines to paste", async () => {
  const platform = standIn("http://127.0.0.1:4999");
  const run = await up(platform, ["--no-self-check"]);
  assert.equal(run.exitCode, 0);
  const path = join(platform.dataDir, "credentials.json");
  assert.match(run.stdout, new RegExp(`shown this once and kept in ${path}:\n  first-key\n`));
  assert.deepEqual(JSON.parse(readFileSync(path, "utf8")), {
    url: "http://127.0.0.1:4999",
    apiKey: "first-key",
    workspace: "main",
    region: "local",
  });
  assert.equal(statSync(path).mode & 0o777, 0o600);
  const [curl, commandLine, client] = run.stdout.split(/ready on .*\n\n/)[1]!.split("\n");
  assert.equal(curl, 'curl -H "Authorization: Bearer first-key" http://127.0.0.1:4999/v0/sandboxes');
  assert.match(commandLine!, /\/bin\/catnap run --data-dir \S+ -- python3 -c 'print\("hello from a sandbox"\)'$/);
  assert.equal(
    client,
    "export BL_API_URL=http://127.0.0.1:4999/v0 BL_RUN_URL=http://127.0.0.1:4999/run BL_API_KEY=first-key BL_WORKSPACE=main BL_REGION=local BL_DISABLE_H2=1 DO_NOT_TRACK=1",
  );
  assert.match(run.stdout, /stopped; sandboxes stay asleep/);
  assert.equal(platform.disposed, 1);
});

test("a later start does not print the key, and follows a changed address", async () => {
  const platform = standIn("http://127.0.0.1:4999");
  await up(platform, ["--no-self-check"]);
  const moved: StandIn = {
    ...platform,
    start: async (options) => ({ ...(await platform.start(options)), url: "http://127.0.0.1:4888" }),
  };
  const run = await up(moved);
  assert.doesNotMatch(run.stdout + run.stderr, /first-key|self-check/);
  assert.match(
    run.stdout,
    /Bearer \$\(\S+\/bin\/catnap credentials --key --data-dir \S+\)" http:\/\/127\.0\.0\.1:4888/,
  );
  assert.match(run.stdout, /BL_API_KEY="\$\(/);
  const kept = JSON.parse(readFileSync(join(platform.dataDir, "credentials.json"), "utf8"));
  assert.deepEqual([kept.url, kept.apiKey], ["http://127.0.0.1:4888", "first-key"]);
});

test("flags reach the platform under the names of the variables they mirror", async () => {
  const platform = standIn("http://127.0.0.1:4999");
  const args = ["--listen", "127.0.0.1:4999", "--idle-timeout", "1m", "--data-dir", "/d", "--sandbox-domain", "x.test"];
  const tls = ["--tls-cert", "/c.pem", "--tls-key", "/k.pem"];
  await up(platform, [...args, ...tls, "--no-self-check"], { env: { CATNAP_LISTEN: "0.0.0.0:1", OTHER: "o" } });
  const [{ overrides, env }] = platform.options as [PlatformOptions];
  assert.deepEqual(overrides, {
    CATNAP_LISTEN: "127.0.0.1:4999",
    CATNAP_IDLE_TIMEOUT: "1m",
    CATNAP_DATA_DIR: "/d",
    CATNAP_SANDBOX_DOMAIN: "x.test",
    CATNAP_TLS_CERT: "/c.pem",
    CATNAP_TLS_KEY: "/k.pem",
  });
  assert.deepEqual([env.CATNAP_LISTEN, env.OTHER], ["0.0.0.0:1", "o"]);
});

test("--json says everything on one line, without the key", async () => {
  const platform = standIn("http://127.0.0.1:4999");
  const run = await up(platform, ["--json", "--no-self-check"]);
  const { startMs, ...ready } = JSON.parse(run.stdout);
  assert.ok(startMs >= 0);
  assert.deepEqual(ready, {
    url: "http://127.0.0.1:4999",
    dataDir: platform.dataDir,
    region: "local",
    workspace: "main",
    credentialsFile: join(platform.dataDir, "credentials.json"),
    isFirstStart: true,
  });
});

test("a lost credentials file is said, and the platform goes on", async () => {
  const platform = standIn("http://127.0.0.1:4999");
  await up(platform, ["--no-self-check"]);
  rmSync(join(platform.dataDir, "credentials.json"));
  const run = await up(platform, ["--self-check"]);
  assert.equal(run.exitCode, 0);
  assert.match(run.stderr, /credentials\.json is gone, and with it the API key/);
});

test("a platform that does not start is explained and ends with 1", async () => {
  const start: StartPlatform = () => Promise.reject(new Error("Port 4000 on 127.0.0.1 is taken."));
  const run = await cli(["up"], { loadPlatform: async () => start });
  assert.equal(run.exitCode, 1);
  assert.match(run.stderr, /The platform did not start: Port 4000 .* is taken\.\n {2}`catnap doctor`/);
});

test("what a start found missing is told with its way out, and the platform goes on", async () => {
  const problems = [{ problem: "The cellar is empty.", remedy: "`npm run setup` fills it." }];
  const run = await up(standIn("http://127.0.0.1:4999", { problems }), ["--no-self-check", "--json"]);
  assert.equal(run.exitCode, 0);
  assert.match(run.stderr, /catnap: The cellar is empty\.\n {2}`npm run setup` fills it\.\n/);
});

test("a setting that leads nowhere is explained with what came of it, and nobody is sent to the doctor", async () => {
  const details = { setting: "CATNAP_DATABASE_URL" };
  const refusal = new AppError("unavailable", "Nothing is there.", { details, cause: new Error("ECONNREFUSED") });
  const run = await cli(["up"], { loadPlatform: async () => () => Promise.reject(refusal) });
  assert.match(run.stderr, /did not start: Nothing is there\. \(ECONNREFUSED\)\n {2}`catnap up --help` and docs/);
});

test("a setting that is refused is explained without sending anybody to the doctor", async () => {
  const refusal = new AppError("invalid_request", "CATNAP_IDLE_TIMEOUT must be a duration such as 15s, 2m or 7d");
  const run = await cli(["up"], { loadPlatform: async () => () => Promise.reject(refusal) });
  assert.equal(run.exitCode, 1);
  assert.match(run.stderr, /did not start: CATNAP_IDLE_TIMEOUT must be a duration.*\n {2}`catnap up --help` and docs/);
});

test("a start that takes its time says what it is doing, and only that", async () => {
  const platform = standIn("http://127.0.0.1:4999");
  let begun: (() => void) | undefined;
  const start: StartPlatform = async (options) => {
    options.onStep?.("opening the door");
    options.onStep?.("taking back the instances of before");
    await new Promise<void>((resolve) => {
      begun = resolve;
    });
    options.onStep?.("too quick to tell");
    return platform.start(options);
  };
  const run = await cli(["up", "--no-self-check"], {
    loadPlatform: async () => start,
    during: async (running) => {
      await eventually(() => assert.match(running.stdout(), /^ {2}taking back the instances of before$/m));
      begun!();
      await untilReady(running);
    },
  });
  assert.equal(run.exitCode, 0);
  assert.doesNotMatch(run.stdout, /opening the door|too quick to tell/);
});

test("a start that hangs can be given up", async () => {
  const start: StartPlatform = () => new Promise(() => undefined);
  const run = await cli(["up"], {
    loadPlatform: async () => start,
    async during({ stderr, signal }) {
      await eventually(() => {
        signal("SIGINT");
        assert.match(stderr(), /stopped before it had finished/);
      });
    },
  });
  assert.equal(run.exitCode, 1);
});

test("an unknown log level is wrong usage", async () => {
  const run = await cli(["up", "--log-level", "loud"]);
  assert.deepEqual(
    [run.exitCode, run.stderr.split("\n")[0]],
    [2, "catnap: The log level must be one of trace, debug, info, warn, error, silent, not loud."],
  );
});

test("the key press that npm passes on twice stops the platform in order; a later one stops it at once", async () => {
  const platform = standIn("http://127.0.0.1:4999");
  let finish: (() => void) | undefined;
  const slow: StandIn = {
    ...platform,
    start: async (options) => ({
      ...(await platform.start(options)),
      [Symbol.asyncDispose]: () =>
        new Promise<void>((resolve) => {
          finish = resolve;
        }),
    }),
  };
  const twice = await up(slow, ["--no-self-check"], {
    async during({ stdout, signal }) {
      await eventually(() => assert.match(stdout(), /ready on/));
      signal("SIGINT");
      signal("SIGINT");
      await eventually(() => assert.ok(finish !== undefined));
      finish?.();
    },
  });
  assert.equal(twice.exitCode, 0);
  const forced = await up(slow, ["--no-self-check"], {
    async during({ stdout, stderr, signal }) {
      await eventually(() => assert.match(stdout(), /ready on/));
      signal("SIGINT");
      await eventually(() => {
        signal("SIGINT");
        assert.match(stderr(), /stopped before it had finished/);
      });
    },
  });
  assert.equal(forced.exitCode, 1);
});

test("a credentials file that others can read is warned of", async () => {
  const platform = standIn("http://127.0.0.1:4999");
  await up(platform, ["--no-self-check"]);
  chmodSync(join(platform.dataDir, "credentials.json"), 0o644);
  assert.match((await up(platform)).stderr, /can be read by others/);
});
