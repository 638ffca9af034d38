// A full disk below the SQLite store: requests are refused as unavailable, nothing acknowledged is lost, and room mends it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { mountSmallDisk } from "../small-disk.ts";
import { testsOnPostgres } from "./databases.ts";
import { startServer, until } from "./harness.ts";

/** PostgreSQL's files lie elsewhere. */
const skip = testsOnPostgres;

test("a full disk is 503, loses nothing acknowledged, and is over when there is room", { skip }, async () => {
  using disk = mountSmallDisk(6);
  const acknowledged: string[] = [];
  const server = await startServer({ dataDir: disk.path });
  try {
    const create = async (index: number) => {
      const answer = await server.create({ name: `box-${index}`, metadata: { labels: { filling: "x".repeat(60) } } });
      if (answer.status === 200) acknowledged.push(`box-${index}`);
      return answer;
    };
    for (let index = 0; index < 5; index++) assert.equal((await create(index)).status, 200);
    disk.fill();
    const refused = await until("a creation is refused", async () => {
      const answer = await create(acknowledged.length + 100);
      return answer.status === 200 ? undefined : answer;
    });
    assert.equal(refused.status, 503, refused.text);
    assert.match(refused.body.message, /disk of the database is full/);
    assert.equal(refused.body.code, "STORAGE_FULL");
    for (const name of acknowledged) assert.equal((await server.call("GET", `/v0/sandboxes/${name}`)).status, 200);
    const deletion = await server.call("DELETE", "/v0/sandboxes/box-0");
    assert.ok(deletion.status === 503 || deletion.status === 200, deletion.text);
    disk.free();
    assert.equal((await create(999)).status, 200);
  } finally {
    await server[Symbol.asyncDispose]();
  }
  await using again = await startServer({ dataDir: disk.path, apiKey: server.apiKey, host: server.host });
  for (const name of acknowledged.slice(1)) {
    assert.equal((await again.call("GET", `/v0/sandboxes/${name}`)).body.status, "DEPLOYED", name);
  }
  const counted = await again.query<{ count: number }>("select sum(count) as count from sandbox_counts");
  const real = await again.query<{ count: number }>("select count(*) as count from sandboxes");
  assert.deepEqual({ ...counted[0] }, { ...real[0] });
});
