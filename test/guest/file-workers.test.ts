// The workers behind file operations: many at once, and no more than the guest allows.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { eventually } from "../eventually.ts";
import { startGuest } from "./start-guest.ts";
import { readAll, refused } from "./with-files.ts";

test("1,000 operations at once all succeed, and no worker stays", async () => {
  await using guest = await startGuest();
  await using connection = await guest.open();
  const { files } = connection;
  const dir = join(guest.dir, "many");
  await Promise.all(
    Array.from({ length: 500 }, (_, index) => files.write(join(dir, String(index)), Buffer.from(`${index}`))),
  );
  const bodies = await Promise.all(Array.from({ length: 500 }, (_, index) => readAll(files, join(dir, String(index)))));
  assert.deepEqual(
    bodies.map(String),
    Array.from({ length: 500 }, (_, index) => `${index}`),
  );
  await eventually(() => assert.throws(() => execFileSync("ps", ["--ppid", String(guest.pid)])));
});

test("workers beyond the guest's limit are refused with a reason, and the init goes on", async () => {
  await using guest = await startGuest();
  await using connection = await guest.open();
  // Raw connections that say hello and then nothing hold a worker each.
  const hello = Buffer.from([0x43, 0x41, 0x54, 0x4e, 1, 0, 2, 0]);
  const sockets = await Promise.all(
    Array.from({ length: 140 }, async () => {
      const socket = connect(guest.socketPath);
      await once(socket, "connect");
      socket.write(hello);
      return socket;
    }),
  );
  const refusals: Buffer[] = [];
  for (const socket of sockets) socket.on("data", (data: Buffer) => refusals.push(data));
  await eventually(() => assert.equal(refusals.length, 12));
  for (const refusal of refusals) assert.equal(refusal.toString("hex"), "0d00000065000000000b00000004000000666f726b00");
  await assert.rejects(connection.files.stat("/"), refused("EAGAIN"));
  await connection.ping();
  for (const socket of sockets) socket.destroy();
  await eventually(() => connection.files.stat("/"));
});
