// Long answers learn that nobody listens, whenever the connection went, and keep nothing of it.
import assert from "node:assert/strict";
import { getEventListeners, once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { test } from "node:test";
import { closeSignal } from "../../src/sandbox-api/client-gone.ts";
import type { SessionContext } from "../../src/sandbox-api/session-context.ts";

type Asked = { response: ServerResponse; leave: () => Promise<void> };

async function withRequest(check: (asked: Asked) => Promise<void>): Promise<void> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const client = connect((server.address() as AddressInfo).port, "127.0.0.1");
  try {
    client.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    const [, response] = (await once(server, "request")) as [unknown, ServerResponse];
    const leave = async (): Promise<void> => {
      const closed = once(response, "close");
      client.destroy();
      await closed;
    };
    await check({ response, leave });
  } finally {
    client.destroy();
    server.close();
    server.closeAllConnections();
  }
}

const sessionUntil = (ended: AbortSignal): SessionContext => ({ ended }) as SessionContext;

test("a client that leaves during the answer, or had left before it was looked for, is gone", async () => {
  for (const isBefore of [false, true]) {
    await withRequest(async ({ response, leave }) => {
      const session = new AbortController();
      if (isBefore) await leave();
      const gone = closeSignal(response, sessionUntil(session.signal));
      assert.equal(gone.aborted, isBefore);
      if (!isBefore) await leave();
      assert.match(String(gone.reason), /client closed the connection/);
      assert.deepEqual(getEventListeners(session.signal, "abort"), [], "nothing waits for the session's end");
    });
  }
});

test("an answer that was sent whole is nobody's leaving, and a session that ends ends its answers", async () => {
  await withRequest(async ({ response }) => {
    const session = new AbortController();
    const gone = closeSignal(response, sessionUntil(session.signal));
    const closed = once(response, "close");
    response.end("all");
    await closed;
    assert.equal(gone.aborted, false);
    assert.deepEqual(getEventListeners(session.signal, "abort"), []);
  });
  await withRequest(async ({ response }) => {
    const session = new AbortController();
    const gone = closeSignal(response, sessionUntil(session.signal));
    session.abort(new Error("handed over"));
    assert.match(String(gone.reason), /handed over/);
    assert.equal(closeSignal(response, sessionUntil(session.signal)).aborted, true);
  });
});
