// Output of a process crosses the wire byte for byte, whatever the bytes are and however they are cut.
import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { test } from "node:test";
import fc from "fast-check";
import { type ProcessEvent, readProcessEvents } from "../../src/cli/process/events.ts";
import { EventFramer, event } from "../../src/sandbox-api/processes/event-framer.ts";

const ended = { name: "p", status: "completed", exitCode: 0 };
const result = event("result", JSON.stringify(ended));

async function read(chunks: readonly (string | Buffer)[]): Promise<ProcessEvent[]> {
  const events: ProcessEvent[] = [];
  const stream = Readable.from(
    chunks.map((chunk) => (typeof chunk === "string" ? Buffer.from(chunk, "latin1") : chunk)),
    { objectMode: false },
  );
  for await (const one of readProcessEvents(stream as IncomingMessage)) events.push(one);
  return events;
}

function bytesOf(events: readonly ProcessEvent[], type: "stdout" | "stderr"): Buffer {
  return Buffer.concat(events.flatMap((one) => (one.type === type ? [one.chunk] : [])));
}

const bytes = fc.oneof(
  fc.uint8Array({ maxLength: 40 }).map((array) => Buffer.from(array)),
  fc.string({ unit: "grapheme", maxLength: 20 }).map((text) => Buffer.from(text)),
);

test("any bytes in any pieces arrive as they were written", async () => {
  const pieces = fc.array(fc.record({ stream: fc.constantFrom("stdout" as const, "stderr" as const), data: bytes }), {
    maxLength: 12,
  });
  await fc.assert(
    fc.asyncProperty(pieces, fc.integer({ min: 1, max: 50 }), async (items, cut) => {
      const framer = new EventFramer();
      const wire = Buffer.from(items.map((item) => framer.item(item)).join("") + framer.end() + result, "latin1");
      const chunks = [];
      for (let at = 0; at < wire.length; at += cut) chunks.push(wire.subarray(at, at + cut));
      const events = await read(chunks);
      for (const stream of ["stdout", "stderr"] as const) {
        const written = Buffer.concat(items.flatMap((item) => (item.stream === stream ? [item.data] : [])));
        assert.deepEqual(bytesOf(events, stream), written);
      }
      assert.deepEqual(events.at(-1), { type: "end", process: ended });
    }),
    { numRuns: 300 },
  );
});

test("text is sent as text alone, without base64", () => {
  const framer = new EventFramer();
  const euro = Buffer.from("€");
  assert.equal(framer.item({ stream: "stdout", data: euro.subarray(0, 2) }).length, 0);
  const wire = framer.item({ stream: "stdout", data: euro.subarray(2) });
  assert.deepEqual(JSON.parse(Buffer.from(wire, "latin1").toString()), { type: "stdout", data: "€", offset: 0 });
});

test("a stream that ends without a result is a failure, not an end", async () => {
  await assert.rejects(read([event("stdout", "half")]), /broke before the process ended/);
});

test("lost output is a failure that says how much", async () => {
  const framer = new EventFramer();
  await assert.rejects(
    read([framer.item({ stream: "stdout", missingBytes: 7 }), result]),
    /7 bytes of the output were lost/,
  );
});

test("an error of the server is told as it is, without what a terminal could act on", async () => {
  await assert.rejects(read([event("error", "no \u001b[31mspace")]), /no \ufffd\[31mspace/);
});
