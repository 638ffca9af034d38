// Nothing is acknowledged before the disk has it: while a sync of the database's log is under way, the change that waits for it is not answered.
import assert from "node:assert/strict";
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { after, test } from "node:test";
import { eventually } from "../eventually.ts";
import { testsOnPostgres } from "./databases.ts";

/** Syncs that were asked for and are held back; undefined lets them through. */
let held: (() => void)[] | undefined;
const { fdatasync } = fs;
// Before anything that takes it from there is loaded.
fs.fdatasync = ((file: number, done: (error: NodeJS.ErrnoException | null) => void) => {
  if (held === undefined) return fdatasync(file, done);
  held.push(() => fdatasync(file, done));
}) as typeof fs.fdatasync;
syncBuiltinESMExports();
after(() => {
  fs.fdatasync = fdatasync;
  syncBuiltinESMExports();
});
const { startServer } = await import("./harness.ts");
type Server = Awaited<ReturnType<typeof startServer>>;

/** PostgreSQL syncs its own files. */
const skip = testsOnPostgres;

const sandbox = "/v0/sandboxes/box";
const changes: [what: string, change: (server: Server) => Promise<{ status: number; text: string }>][] = [
  ["a creation", (server) => server.create({ name: "made" })],
  [
    "an update",
    async (server) => {
      const { body } = await server.call("GET", sandbox);
      body.metadata.labels = { changed: "yes" };
      return server.call("PUT", sandbox, { body });
    },
  ],
  ["a deletion", (server) => server.call("DELETE", sandbox)],
  [
    "a service account",
    (server) => server.call("POST", "/v0/service_accounts", { body: { name: "robot", role: "member" } }),
  ],
];

for (const [what, change] of changes) {
  test(`${what} is answered after its sync and not before`, { skip, timeout: 180_000 }, async () => {
    await using server = await startServer();
    assert.equal((await server.create({ name: "box" })).status, 200);
    held = [];
    let isAnswered = false;
    const answered = change(server).finally(() => {
      isAnswered = true;
    });
    answered.catch(() => undefined);
    try {
      await eventually(() => assert.ok(held!.length > 0, "no sync was asked for"));
      // Others are served meanwhile, more than enough of them for an answer to come that did not wait.
      for (let round = 0; round < 20; round++) assert.equal((await server.call("GET", "/v0/workspaces")).status, 200);
      assert.ok(!isAnswered, "it was answered before it was synced");
    } finally {
      const waiting = held!;
      held = undefined;
      for (const sync of waiting) sync();
    }
    const { status, text } = await answered;
    assert.equal(status, 200, text);
  });
}
