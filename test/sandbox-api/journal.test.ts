// The journal of a process: exact after every crash point, bounded, readable while it grows.
import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import fc from "fast-check";
import type { OutputStream } from "../../src/sandbox-api/machine.ts";
import { Journal, segmentMaxBytes, segmentsMax } from "../../src/sandbox-api/processes/journal.ts";
import { recordHeaderBytes, recordMaxBytes } from "../../src/sandbox-api/processes/journal-format.ts";
import { listSegments, loadJournal } from "../../src/sandbox-api/processes/journal-load.ts";
import { JournalReader } from "../../src/sandbox-api/processes/journal-reader.ts";
import { LineFramer } from "../../src/sandbox-api/processes/line-framer.ts";
import { readTail } from "../../src/sandbox-api/processes/output-tail.ts";
import { log } from "./harness.ts";

const token = "abc123";
let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "journal-"));
});
afterEach(() => rmSync(directory, { recursive: true }));

function openJournal(place = directory): Journal {
  const state = loadJournal(place, token, listSegments(place).get(token) ?? []);
  return new Journal({ directory: place, token }, state, { log, onWritten: () => undefined });
}

type Read = { stdout: Buffer; stderr: Buffer; missing: Record<OutputStream, number>; order: OutputStream[] };

async function readAll(journal: Journal): Promise<Read> {
  await using reader = new JournalReader(journal);
  const data: Record<OutputStream, Buffer[]> = { stdout: [], stderr: [] };
  const missing = { stdout: 0, stderr: 0 };
  const order: OutputStream[] = [];
  for (;;) {
    const items = await reader.next();
    if (items.length === 0) break;
    for (const item of items) {
      if ("missingBytes" in item) missing[item.stream] += item.missingBytes;
      else data[item.stream].push(item.data);
      if (order.at(-1) !== item.stream) order.push(item.stream);
    }
  }
  return { stdout: Buffer.concat(data.stdout), stderr: Buffer.concat(data.stderr), missing, order };
}

const chunks = fc.array(
  fc.record({
    stream: fc.constantFrom<OutputStream>("stdout", "stderr"),
    data: fc.uint8Array({ minLength: 1, maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
  }),
  { minLength: 1, maxLength: 30 },
);

test("cut anywhere and told again from any earlier point, it holds every byte once", async () => {
  await fc.assert(
    fc.asyncProperty(chunks, fc.nat(), fc.nat(), async (written, cut, again) => {
      const place = mkdtempSync(join(directory, "p"));
      const total: Record<OutputStream, Buffer> = { stdout: Buffer.alloc(0), stderr: Buffer.alloc(0) };
      const journal = openJournal(place);
      for (const { stream, data } of written) {
        await journal.append(stream, total[stream].length, data);
        total[stream] = Buffer.concat([total[stream], data]);
      }
      await journal.close();
      const [name] = readdirSync(place);
      truncateSync(join(place, name!), cut % (journal.bytes + 1));
      const reopened = openJournal(place);
      for (const stream of ["stdout", "stderr"] as const) {
        const from = reopened.written[stream] === 0 ? 0 : again % (reopened.written[stream] + 1);
        assert.ok(reopened.written[stream] <= total[stream].length);
        await reopened.append(stream, from, total[stream].subarray(from));
      }
      const read = await readAll(reopened);
      assert.ok(read.stdout.equals(total.stdout) && read.stderr.equals(total.stderr));
      assert.deepEqual(read.missing, { stdout: 0, stderr: 0 });
      await reopened.close();
      rmSync(place, { recursive: true });
    }),
    { numRuns: 200 },
  );
});

test("an acknowledged byte is in the file when the promise fulfils", async () => {
  const journal = openJournal();
  await Promise.all([
    journal.append("stdout", 0, Buffer.from("abc")),
    journal.append("stderr", 0, Buffer.from("xyz")),
    journal.append("stdout", 3, Buffer.from("def")),
  ]);
  const other = openJournal();
  assert.deepEqual(other.written, { stdout: 6, stderr: 3 });
  const { stdout, stderr, order } = await readAll(other);
  assert.deepEqual([stdout.toString(), stderr.toString(), order], ["abcdef", "xyz", ["stdout", "stderr", "stdout"]]);
  await journal.close();
});

test("what is told twice is written once, and acknowledged only when the first telling is written", async () => {
  const journal = openJournal();
  let isWritten = false;
  const first = journal.append("stdout", 0, Buffer.from("abc")).then(() => {
    isWritten = true;
  });
  await journal.append("stdout", 0, Buffer.from("abc"));
  assert.ok(isWritten);
  await first;
  await journal.append("stdout", 1, Buffer.from("bcde"));
  assert.equal((await readAll(journal)).stdout.toString(), "abcde");
  await journal.close();
});

test("what cannot be written before the journal is closed is refused to everybody who told it, and so is what came after", async () => {
  const place = join(directory, "gone");
  const journal = openJournal(mkdtempSync(place));
  rmSync(journal.directory, { recursive: true });
  const told = [
    journal.append("stdout", 0, Buffer.from("first")),
    journal.append("stdout", 0, Buffer.from("first")),
    journal.append("stdout", 5, Buffer.from("second")),
    journal.flush(),
  ];
  const [outcomes] = await Promise.all([Promise.allSettled(told), journal.close()]);
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ["rejected", "rejected", "rejected", "rejected"],
  );
  await assert.rejects(journal.flush(), /closed/);
  assert.deepEqual(journal.written, { stdout: 0, stderr: 0 });
});

test("it keeps the newest segments, and a restart still knows every length", async () => {
  const journal = openJournal();
  await journal.append("stderr", 0, Buffer.from("early"));
  const block = Buffer.alloc(1024 * 1024, "x");
  // One by one at first, then as a process that writes faster than the disk.
  for (let index = 0; index < 24; index += 1) await journal.append("stdout", index * block.length, block);
  const appended = Array.from({ length: 24 }, (_, index) =>
    journal.append("stdout", (24 + index) * block.length, block),
  );
  await Promise.all(appended);
  await journal.close();
  assert.equal(readdirSync(directory).length, segmentsMax);
  assert.ok(journal.segments.every(({ bytes }) => bytes <= segmentMaxBytes));
  const full = journal.segments.slice(0, -1);
  assert.ok(full.every(({ bytes }) => bytes + recordHeaderBytes + recordMaxBytes > segmentMaxBytes));
  const reopened = openJournal();
  assert.deepEqual(reopened.written, { stdout: 48 * block.length, stderr: 5 });
  const { stdout, missing } = await readAll(reopened);
  assert.equal(missing.stderr, 5);
  assert.equal(stdout.length + missing.stdout, 48 * block.length);
  const tail = await readTail(reopened, 1_000, "p/1");
  assert.equal(tail.stderr, "[... 5 earlier bytes are not shown; the log is at /process/p%2F1/logs/stream ...]\n");
  assert.equal(tail.stdout.length - tail.stdout.indexOf("\n") - 1, 1_000);
  await reopened.close();
});

test("a tail begins with a whole character", async () => {
  const journal = openJournal();
  await journal.append("stdout", 0, Buffer.from("a\u20ac\u20ac"));
  const { stdout } = await readTail(journal, 5, "p");
  assert.match(stdout, /^\[\.\.\. 4 earlier bytes .*\]\n\u20ac$/);
  await journal.close();
});

test("a reader that follows sees everything once, whatever the writer does meanwhile", async () => {
  const journal = openJournal();
  const expected: Buffer[] = [];
  const write = async (): Promise<void> => {
    let offset = 0;
    for (let index = 0; index < 2_000; index += 1) {
      const data = Buffer.from(`${index}:${"y".repeat(index % 3_000)}\n`);
      expected.push(data);
      await journal.append("stdout", offset, data);
      offset += data.length;
    }
    await journal.close();
  };
  const writing = write();
  await using reader = new JournalReader(journal);
  const seen: Buffer[] = [];
  let isDone = false;
  writing.then(
    () => {
      isDone = true;
    },
    () => undefined,
  );
  for (;;) {
    const wasDone = isDone;
    const items = await reader.next();
    for (const item of items) if ("data" in item) seen.push(item.data);
    if (items.length === 0 && wasDone) break;
    // At the end nothing is waited for: the writer has to get its turn.
    if (items.length === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  await writing;
  assert.ok(Buffer.concat(seen).equals(Buffer.concat(expected)));
});

test("lines told apart by stream give back what each stream held, but for breaks where the streams cross", async () => {
  await fc.assert(
    fc.property(chunks, (written) => {
      const framer = new LineFramer();
      const lines = written.map(({ stream, data }) => {
        const text = data.toString("latin1").replaceAll("\n", "").replaceAll("\r", "");
        return { stream, data: Buffer.from(`${text}\n`, "latin1") };
      });
      const framed = lines.map((item) => framer.item(item)).join("");
      for (const stream of ["stdout", "stderr"] as const) {
        const back = framed.split("\n").filter((line) => line.startsWith(`${stream}:`));
        const own = lines.filter((line) => line.stream === stream).map(({ data }) => data.toString("latin1"));
        assert.deepEqual(
          back.map((line) => `${line.slice(stream.length + 1)}\n`),
          own,
        );
      }
    }),
  );
});
