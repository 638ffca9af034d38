// The rules of processes, without any: what a start asks for, what counts as a port, whether and when a failure is followed by another run.
import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, suite, test } from "node:test";
import type { Machine, ProcessEnd, SocketInfo } from "../../src/sandbox-api/machine.ts";
import type { Process } from "../../src/sandbox-api/processes/process.ts";
import type { ProcessRecord, RestartState } from "../../src/sandbox-api/processes/process-record.ts";
import { isRunAgain, nextRun } from "../../src/sandbox-api/processes/restart.ts";
import { toStartRequest } from "../../src/sandbox-api/processes/start-request.ts";
import { waitAsAsked } from "../../src/sandbox-api/processes/wait.ts";

suite("what a start asks for", () => {
  const inMachine = (environment: Record<string, string>) =>
    ({ environment, workingDir: "/work", homeDir: "/home" }) as unknown as Machine;
  const request = (body: object, environment = {}) =>
    toStartRequest({ command: "date", ...body }, inMachine(environment));

  for (const [timeout, timeoutMs] of [
    [undefined, 600_000],
    [0, undefined],
    [7, 7_000],
  ] as const) {
    test(`keepAlive with a timeout of ${timeout} ends after ${timeoutMs} milliseconds`, () => {
      assert.equal(request({ keepAlive: true, timeout }).timeoutMs, timeoutMs);
    });
  }

  for (const [value, isRefused] of [
    ["1", true],
    ["TRUE", true],
    ["yes", true],
    ["0", false],
    ["", false],
  ] as const) {
    test(`keepAlive is ${isRefused ? "refused" : "possible"} where BL_DISABLE_KEEPALIVE is '${value}'`, () => {
      const start = () => request({ keepAlive: true }, { BL_DISABLE_KEEPALIVE: value });
      if (isRefused) assert.throws(start, { code: "invalid_request", message: /^keepAlive is disabled/ });
      else assert.equal(start().keepAlive, true);
      assert.equal(request({}, { BL_DISABLE_KEEPALIVE: value }).keepAlive, false);
    });
  }

  test("the shell and its arguments are those of the sandbox's environment", () => {
    assert.deepEqual(request({}).argv, ["/bin/sh", "-c", "date"]);
    const environment = { SHELL: "/bin/bash", SHELL_ARGS: " -l  -c" };
    assert.deepEqual(request({}, environment).argv, ["/bin/bash", "-l", "-c", "date"]);
  });

  test("of a variable that is set several times the request's counts, then the sandbox's", () => {
    const environment = { HOME: "/own", A: "machine", B: "machine" };
    const merged = request({ env: { B: "request" } }, environment).environment;
    assert.deepEqual(merged, { HOME: "/own", A: "machine", B: "request" });
    assert.equal(request({}).environment.HOME, "/home");
  });

  test("variables together have 1 MiB at most, each with its name and two bytes more", () => {
    const most = 1024 * 1024;
    assert.ok(request({ env: { A: "x".repeat(most - 3) } }));
    assert.throws(() => request({ env: { A: "x".repeat(most - 2) } }), { code: "invalid_request" });
  });
});

suite("a port that is waited for", () => {
  const open: SocketInfo = {
    pid: 1,
    processName: "server",
    protocol: "tcp",
    state: "LISTEN",
    localAddress: "0.0.0.0",
    localPort: 80,
    remoteAddress: "0.0.0.0",
    remotePort: 0,
  };
  const cases: [what: string, socket: Partial<SocketInfo>, counts: boolean][] = [
    ["every address", {}, true],
    ["every address of both families", { localAddress: "::" }, true],
    ["an address of its own", { localAddress: "172.30.0.2" }, true],
    ["the loopback", { localAddress: "127.0.0.1" }, false],
    ["another address of the loopback", { localAddress: "127.9.8.7" }, false],
    ["the loopback of IPv6", { localAddress: "::1" }, false],
    ["the loopback, written for IPv6", { localAddress: "::FFFF:127.0.0.1" }, false],
    ["every address with UDP", { protocol: "udp" }, false],
    ["another port", { localPort: 81 }, false],
    ["a connection", { state: "ESTABLISHED" }, false],
  ];
  for (const [what, socket, counts] of cases) {
    test(`${what} ${counts ? "counts" : "does not count"}`, async () => {
      const asked: (number | undefined)[] = [];
      const sockets = async (pid?: number): Promise<SocketInfo[]> => {
        asked.push(pid);
        return asked.length === 1 ? [{ ...open, ...socket }] : [open];
      };
      const journal = { version: 0, onChange: () => () => undefined };
      const process = { hasEnded: false, record: { phase: "running", guestPid: 9 }, journal } as unknown as Process;
      const machine = { guest: { sockets } } as unknown as Machine;
      const gone = new AbortController().signal;
      await waitAsAsked(process, { command: "x", waitForPorts: [80], timeout: 60 }, { machine, gone });
      assert.deepEqual(asked, counts ? [9] : [9, 9]);
    });
  }
});

suite("runs after a failure", () => {
  const nowMs = Date.parse("2030-01-01T00:00:00Z");
  beforeEach(() => mock.timers.enable({ apis: ["Date"], now: nowMs }));
  afterEach(() => mock.timers.reset());

  const state = (more: Partial<RestartState>): RestartState => ({
    max: 3,
    count: 0,
    failuresInRow: 0,
    runStartedAtMs: nowMs,
    sealedRun: "",
    marker: "",
    base: { stdout: 0, stderr: 0 },
    dueMs: undefined,
    ...more,
  });
  const failed: ProcessEnd = { code: 1 };
  const written = { written: { stdout: 10, stderr: 5 }, endsLine: true };

  const again: [what: string, record: Partial<ProcessRecord>, end: ProcessEnd, isRunAgain: boolean][] = [
    ["a failure", {}, failed, true],
    ["a death of a signal", {}, { signal: 11 }, true],
    ["success", {}, { code: 0 }, false],
    ["the last failure but one that is allowed", { restarts: state({ count: 2 }) }, failed, true],
    ["the last failure that is allowed", { restarts: state({ count: 3 }) }, failed, false],
    ["no failure that is allowed", { restarts: state({ max: 0 }) }, failed, false],
    ["the thousandth failure of one without limit", { restarts: state({ max: -1, count: 1_000 }) }, failed, true],
    ["a failure of one that was stopped", { endedBy: "stop" }, failed, false],
    ["a failure before the deadline", { deadlineMs: nowMs + 1 }, failed, true],
    ["a failure at the deadline", { deadlineMs: nowMs }, failed, false],
    ["a failure of one that did not ask for it", { restarts: undefined }, failed, false],
  ];
  for (const [what, record, end, expected] of again) {
    test(`${what} is ${expected ? "" : "not "}followed by another run`, () => {
      assert.equal(isRunAgain({ restarts: state({}), ...record } as ProcessRecord, end), expected);
    });
  }

  test("without a limit each pause is twice the one before, up to a minute; with one it is a second", () => {
    let endless = state({ max: -1 });
    const pauses = Array.from({ length: 8 }, () => {
      endless = nextRun(endless, failed, written);
      return endless.dueMs! - nowMs;
    });
    assert.deepEqual(pauses, [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
    assert.equal(nextRun(state({ max: 9, failuresInRow: 7 }), failed, written).dueMs, nowMs + 1_000);
  });

  test("a run of a minute begins the pauses anew, a shorter one does not", () => {
    const after = (ranMs: number) =>
      nextRun(state({ max: -1, count: 5, failuresInRow: 5, runStartedAtMs: nowMs - ranMs }), failed, written);
    assert.deepEqual([after(60_000).failuresInRow, after(60_000).dueMs, after(60_000).count], [1, nowMs + 1_000, 6]);
    assert.deepEqual([after(59_999).failuresInRow, after(59_999).dueMs], [6, nowMs + 32_000]);
  });

  test("the output of the next run begins after a line that tells of it, which is one of its own", () => {
    const { marker, base } = nextRun(state({}), failed, written);
    assert.equal(marker, "[process exited with code 1; restart 1 of 3]\n");
    assert.deepEqual(base, { stdout: 10 + marker.length, stderr: 5 });
    const unfinished = nextRun(state({ max: -1 }), { signal: 9 }, { ...written, endsLine: false });
    assert.equal(unfinished.marker, "\n[process died of signal 9; restart 1]\n");
  });
});
