// Requests at random moments around the idle timeout: none is refused, none is lost, each is done once.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { spawnPlatform } from "../../src/dev/spawn-platform.ts";
import { eventually } from "../eventually.ts";
import { SandboxUnderAttack, seededRandom } from "./sandbox-under-attack.ts";

const sandboxes = 20;
const requests = 2_000;
const idleMs = 100;
const seed = Number(process.env.CATNAP_FAULT_SEED ?? Date.now() % 1_000_000);

test(`${requests} requests around the idle timeout of ${sandboxes} sandboxes are all done once (seed ${seed})`, {
  timeout: 900_000,
}, async () => {
  await using platform = await spawnPlatform({ CATNAP_IDLE_TIMEOUT: `${idleMs}ms`, CATNAP_WARM_INSTANCES: "0" });
  const names = Array.from({ length: sandboxes }, (_, index) => `nap-${index}`);
  const fleet = await Promise.all(names.map((name) => SandboxUnderAttack.create(platform, name)));
  const caller = async (sandbox: SandboxUnderAttack, number: number): Promise<void> => {
    const random = seededRandom(seed + number);
    for (let round = 0; round < requests / sandboxes; round++) {
      // Freezes are looked for every 50 ms, so moments up to three times the timeout meet each phase.
      await delay(random() * 3 * idleMs);
      if (round % 10 === 0) await eventually(async () => assert.equal((await sandbox.status()).state, "STANDBY"));
      const ran = await sandbox.run(`echo ${round} >> /tmp/rounds; echo ${round}`);
      assert.deepEqual([ran.stdout, ran.exitCode], [`${round}\n`, 0]);
    }
  };
  await Promise.all(fleet.map(caller));
  const expected = Array.from({ length: requests / sandboxes }, (_, round) => `${round}\n`).join("");
  for (const sandbox of fleet) {
    assert.equal((await sandbox.call("GET", "/filesystem/tmp%2Frounds")).content, expected);
    assert.deepEqual((await sandbox.status()).errors, []);
  }
});
