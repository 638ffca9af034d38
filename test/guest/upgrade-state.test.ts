// What one init hands to the next, bent in every way: the reader refuses it or not, and never steps outside it.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { closeSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { eventually } from "../eventually.ts";
import { buildGuest, type RunningGuest, startGuest } from "./start-guest.ts";

const environment = { PATH: "/usr/bin:/bin" };
const rounds = 400;

/** The state of an init with processes of every kind, taken by a binary that keeps what it is tried out with. */
async function takeState(guest: RunningGuest): Promise<Buffer> {
  await using connection = await guest.open();
  const spawn = (token: string, script: string, more: object = {}) =>
    connection.spawn({ token, argv: ["sh", "-c", script], workingDir: "/", environment, ...more });
  await spawn("ended", "seq 1 300; exit 3");
  await spawn("lives", "echo out; echo err >&2; exec sleep 60");
  await spawn("reads", "exec sleep 60", { stdin: "pipe" });
  await spawn("shows", "echo shown; exec sleep 60", { terminal: { columns: 80, rows: 24 } });
  await connection.writeStdin("reads", Buffer.from("some"));
  const [path, program] = [join(guest.dir, "state"), join(guest.dir, "takes")];
  const source = `#include <fcntl.h>
#include <unistd.h>
int main(void) {
  char bytes[4096];
  int out = open("${path}", O_WRONLY | O_CREAT | O_TRUNC, 0600);
  for (ssize_t got; (got = read(3, bytes, sizeof bytes)) > 0;) write(out, bytes, got);
  return 7;
}`;
  execFileSync("musl-gcc", ["-w", "-static", "-x", "c", "-", "-o", program], { input: source });
  return await eventually(async () => {
    await assert.rejects(connection.upgrade(readFileSync(program)), /ended with code 7/);
    const state = readFileSync(path);
    assert.ok(state.includes("shown") && state.includes("err\n") && state.includes("299\n300\n"));
    return state;
  });
}

test(`${rounds} bent states are refused or understood, without a step outside`, async () => {
  await using guest = await startGuest();
  const state = await takeState(guest);
  const path = join(guest.dir, "bent");
  const program = buildGuest("sanitize");
  const check = (bytes: Buffer): number | null => {
    writeFileSync(path, bytes);
    const fd = openSync(path, "r");
    const env = { ASAN_OPTIONS: "detect_leaks=0:allocator_may_return_null=1" };
    const result = spawnSync(program, ["--check"], { stdio: ["ignore", "pipe", "pipe", fd], env, timeout: 20_000 });
    closeSync(fd);
    assert.equal(result.stderr.toString(), "");
    return result.status;
  };
  assert.equal(check(state), 0);
  assert.equal(check(Buffer.alloc(0)), 1);
  let random = 12_345;
  const next = (limit: number): number => {
    random = (random * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((random / 2_147_483_648) * limit);
  };
  const results = new Set<number | null>();
  for (let round = 0; round < rounds; round++) {
    let bent = Buffer.from(state);
    for (let change = 1 + next(3); change > 0; change--) {
      const at = next(bent.length);
      if (next(6) === 0) bent = bent.subarray(0, at + 1);
      else if (next(3) === 0 && at + 4 <= bent.length)
        bent.writeUInt32LE([0xffff_ffff, 0x7fff_ffff, 0, 65_536][next(4)]!, at);
      else bent[at] = next(256);
    }
    results.add(check(bent));
  }
  assert.deepEqual([...results].sort(), [0, 1]);
});
