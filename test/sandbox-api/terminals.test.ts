// Terminals without a shell: what is kept of their output, idle ones, and sandboxes that want none.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { GuestProcess, Machine } from "../../src/sandbox-api/machine.ts";
import { Replay } from "../../src/sandbox-api/terminal/replay.ts";
import { Terminals } from "../../src/sandbox-api/terminal/terminals.ts";

test("a replay is the exact end of what was shown, cut where a character begins", () => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ unit: "grapheme", maxLength: 30 })),
      fc.integer({ min: 8, max: 200 }),
      (texts, max) => {
        const replay = new Replay(max);
        for (const text of texts) replay.append(text);
        const all = texts.join("").toWellFormed();
        const kept = replay.text();
        assert.ok(all.endsWith(kept));
        assert.ok(Buffer.byteLength(kept) <= max);
        if (Buffer.byteLength(all) <= max) assert.equal(kept, all);
      },
    ),
  );
});

test("a cut replay begins with a line or an escape sequence, not inside one", () => {
  const replay = new Replay(10);
  replay.append("abcdef\u001b[31mred\n");
  assert.equal(replay.text(), "\u001b[31mred\n".slice(-10));
  replay.append("\u001b[38;5;200mx\ny");
  assert.equal(replay.text(), "y");
});

function fakeMachine(environment: Record<string, string> = {}) {
  const calls: string[] = [];
  const machine = {
    environment,
    isAsleep: false,
    homeDir: "/",
    workingDir: "/",
    touch: () => undefined,
    guest: {
      closeStdin: async (token: string) => void calls.push(`hang up ${token}`),
      signal: async (token: string) => void calls.push(`kill ${token}`),
    },
  };
  return { calls, machine, terminals: new Terminals(machine as unknown as Machine) };
}

const token = `t${"a".repeat(25)}`;
const running: GuestProcess = { token, pid: 5, end: undefined };

test("a terminal nobody uses for ten minutes is hung up; output is use, and time asleep does not count", async () => {
  const { calls, machine, terminals } = fakeMachine();
  terminals.guestConnected([running, { ...running, token: "a".repeat(20) }]);
  terminals.sweep(590_000);
  await terminals.sink.output(token, "stdout", 0, Buffer.from("x"));
  terminals.sweep(590_000);
  machine.isAsleep = true;
  terminals.sweep(3_600_000);
  machine.isAsleep = false;
  assert.deepEqual(calls, []);
  terminals.sweep(10_000);
  assert.deepEqual(calls, [`hang up ${token}`]);
  await terminals.sink.exit(token, { signal: 1 });
  terminals.sweep(600_000);
  assert.equal(calls.length, 1);
});

test("nothing is acknowledged once the daemon hands over", async () => {
  const { terminals } = fakeMachine();
  terminals.guestConnected([running]);
  terminals[Symbol.dispose]();
  await assert.rejects(terminals.sink.output(token, "stdout", 0, Buffer.from("x")), { code: "unavailable" });
  await assert.rejects(terminals.sink.exit(token, { code: 0 }), { code: "unavailable" });
});

for (const [value, isDisabled] of [
  ["true", true],
  ["1", true],
  ["yes", true],
  ["", false],
  ["0", false],
  ["false", false],
] as const) {
  test(`DISABLE_TERMINAL=${value} ${isDisabled ? "refuses" : "allows"} terminals`, async () => {
    const { terminals } = fakeMachine({ DISABLE_TERMINAL: value });
    assert.equal(terminals.isDisabled, isDisabled);
    if (isDisabled) await assert.rejects(terminals.open({}), { code: "forbidden" });
  });
}

test("a terminal that is being started is not taken for lost when the guest is reached again", async () => {
  const { machine, terminals } = fakeMachine();
  const spawned = Promise.withResolvers<{ pid: number }>();
  Object.assign(machine.guest, { spawn: () => spawned.promise });
  const opening = terminals.open({});
  terminals.guestConnected([]);
  spawned.resolve({ pid: 7 });
  const terminal = await opening;
  assert.equal(await terminals.open({}), terminal);
  terminals.guestConnected([]);
  assert.notEqual(await terminals.open({}), terminal, "one that runs no more is");
  terminals[Symbol.dispose]();
});
