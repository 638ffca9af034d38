// A caller who leaves while an upgrade is being connected: nothing stays connected inside.
import assert from "node:assert/strict";
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import { createLogger } from "../../src/core/log.ts";
import { upgradePort } from "../../src/sandbox-api/ports/port-upgrade.ts";
import type { SessionContext } from "../../src/sandbox-api/session-context.ts";

test("an upgrade whose caller left before the server inside accepted ends there, too", async () => {
  const connected = Promise.withResolvers<PassThrough>();
  const session = {
    machine: { guest: { connect: () => connected.promise } },
    ended: new AbortController().signal,
    log: createLogger("silent"),
  } as unknown as SessionContext;
  const headers = { host: "x", upgrade: "websocket", connection: "upgrade" };
  const request = { method: "GET", url: "/port/80/", headers, rawHeaders: Object.entries(headers).flat(), socket: {} };
  const caller = new PassThrough();
  upgradePort(request as unknown as IncomingMessage, caller, Buffer.alloc(0), session);
  caller.destroy();
  await once(caller, "close");
  const inside = new PassThrough();
  const closed = once(inside, "close", { signal: AbortSignal.timeout(60_000) });
  connected.resolve(inside);
  await closed;
  assert.ok(inside.destroyed);
});
