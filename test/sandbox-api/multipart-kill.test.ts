// Multipart uploads whose daemon is killed at random moments of every step: what was acknowledged counts, files are old or new and never between, no part stays.
import assert from "node:assert/strict";
import { createHash, randomBytes, randomInt } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import type { MultipartUpload, UploadedPart } from "../../src/contract/sandbox-api/multipart.ts";
import { eventually } from "../eventually.ts";
import { form } from "./form.ts";
import { SpawnedSandbox, withDeadline } from "./spawned-sandbox.ts";

const rounds = Number(process.env.CATNAP_UPLOAD_KILL_ROUNDS ?? 15);
const partsCount = 12;
/** Some travel with their request, larger ones as they come. */
const partSizes = [1, 700, 20_000, 120_000, 400_000];
const answerMaxMs = 60_000;
const attemptsMax = 20;

let sandbox: SpawnedSandbox;
before(async () => {
  sandbox = await SpawnedSandbox.start();
});
after(() => sandbox[Symbol.asyncDispose]());

type Answer = { status: number; json: unknown; text: string };
/** How many requests of each step a kill has cut short. */
const broken = { initiate: 0, part: 0, complete: 0, abort: 0 };
type Step = keyof typeof broken;

/** Undefined when a kill came in between. */
async function ask(
  step: Step | undefined,
  method: string,
  path: string,
  init: RequestInit = {},
): Promise<Answer | undefined> {
  await sandbox.untilUp();
  try {
    const signal = AbortSignal.timeout(answerMaxMs);
    const response = await fetch(`${sandbox.url}/filesystem-multipart${path}`, { method, signal, ...init });
    const text = await response.text();
    return { status: response.status, text, json: text === "" ? undefined : (JSON.parse(text) as unknown) };
  } catch (error) {
    if ((error as Error).name === "TimeoutError") throw error;
    if (step !== undefined) broken[step] += 1;
    return undefined;
  }
}

async function untilAnswered(step: Step | undefined, ...[method, path, init]: [string, string, RequestInit?]) {
  for (let attempt = 0; attempt < attemptsMax; attempt++) {
    const answer = await ask(step, method, path, init);
    // 503: the daemon was just coming up.
    if (answer !== undefined && answer.status !== 503) return answer;
  }
  return assert.fail(`${method} ${path} was not answered in ${attemptsMax} attempts`);
}

const jsonBody = (json: object): RequestInit => ({
  headers: { "content-type": "application/json" },
  body: JSON.stringify(json),
});
const md5 = (bytes: Buffer): string => createHash("md5").update(bytes).digest("hex");

/** Uploads one part, then another in its place, up to three times; resolves with what was acknowledged last. */
async function uploadPart(uploadId: string, partNumber: number): Promise<Buffer> {
  let bytes = Buffer.alloc(0);
  for (let time = randomInt(1, 4); time > 0; time -= 1) {
    bytes = randomBytes(partSizes[randomInt(partSizes.length)]!);
    const { headers, body } = form([["file", bytes, "part"]]);
    const path = `/${uploadId}/part?partNumber=${partNumber}`;
    const answer = await untilAnswered("part", "PUT", path, { headers, body: Uint8Array.from(body) });
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(answer.json, { partNumber, etag: md5(bytes), size: bytes.length });
  }
  return bytes;
}

function shuffled(numbers: readonly number[]): number[] {
  return numbers
    .map((number) => [Math.random(), number] as const)
    .sort(([a], [b]) => a - b)
    .map(([, number]) => number);
}

/** Kills and starts the daemon after a moment while `work` goes on. */
async function killDuring<Result>(momentMaxMs: number, work: Promise<Result>): Promise<Result> {
  const killing = delay(randomInt(0, momentMaxMs + 1)).then(() => sandbox.restart());
  const [result] = await withDeadline(Promise.all([work, killing]), 120_000, "the step does not end");
  return result;
}

/** Looks at the file all the while: whatever it finds is one of those it may be. */
async function watchFile(path: string, allowed: () => readonly Buffer[], isOver: () => boolean): Promise<number> {
  let looks = 0;
  for (; !isOver(); looks += 1) {
    // What may be there is asked first: it only grows meanwhile.
    const found = readFileSync(path);
    assert.ok(
      allowed().some((content) => content.equals(found)),
      `the file was seen with ${found.length} bytes that are neither the old nor the new ones`,
    );
    await delay(2);
  }
  return looks;
}

async function initiate(path: string): Promise<string> {
  const answer = await untilAnswered("initiate", "POST", `/initiate/${encodeURIComponent(path)}`);
  assert.equal(answer.status, 200, answer.text);
  return (answer.json as { uploadId: string }).uploadId;
}

/** All parts of all uploads that lie inside, and what is still being written. */
function storedFiles(uploadId = ""): string[] {
  const directory = join(sandbox.multipartRoot, uploadId);
  if (!existsSync(directory)) return [];
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ name }) => name);
}

type Round = { uploadId: string; target: string; old: Buffer; fresh: Buffer; named: object[] };

async function uploadParts(round: number): Promise<Round> {
  const target = join(sandbox.workingDir, `round-${round}`, "target.bin");
  const old = randomBytes(30_000);
  mkdirSync(dirname(target), { recursive: true });
  writeFileSync(target, old);
  const uploadId = await initiate(target);
  const numbers = Array.from({ length: partsCount }, (_, index) => index * 3 + 1);
  const contents = new Map<number, Buffer>();
  const uploading = shuffled(numbers).map(async (number) => contents.set(number, await uploadPart(uploadId, number)));
  await killDuring(150, Promise.all(uploading));
  const listed = await untilAnswered(undefined, "GET", `/${uploadId}/parts`);
  const expected = numbers.map((number) => [number, md5(contents.get(number)!)]);
  const { parts } = listed.json as { parts: UploadedPart[] };
  assert.deepEqual(
    parts.map(({ partNumber, etag }) => [partNumber, etag]),
    expected,
    "what was acknowledged last counts",
  );
  const fresh = Buffer.concat(numbers.map((number) => contents.get(number)!));
  const named = shuffled(numbers).map((partNumber) => ({ partNumber, etag: md5(contents.get(partNumber)!) }));
  return { uploadId, target, old, fresh, named };
}

async function endUpload(isAborted: boolean, { uploadId, target, old, fresh, named }: Round): Promise<void> {
  let isOver = false;
  const watching = watchFile(
    target,
    () => (isAborted ? [old] : [old, fresh]),
    () => isOver,
  );
  watching.catch(() => undefined);
  if (isAborted) {
    const answer = await killDuring(6, untilAnswered("abort", "DELETE", `/${uploadId}/abort`));
    // 404: the first one had come to its end unheard.
    assert.ok([200, 404].includes(answer.status), answer.text);
  } else {
    const answer = await killDuring(
      25,
      untilAnswered("complete", "POST", `/${uploadId}/complete`, jsonBody({ parts: named })),
    );
    assert.equal(answer.status, 200, answer.text);
  }
  isOver = true;
  assert.ok((await watching) > 0);
  assert.ok(readFileSync(target).equals(isAborted ? old : fresh));
  await eventually(async () => {
    // Whatever a daemon left is removed when the sandbox is used again.
    const { uploads } = (await untilAnswered(undefined, "GET", "")).json as { uploads: MultipartUpload[] };
    assert.ok(!uploads.some((upload) => upload.uploadId === uploadId), "the upload is still open");
    assert.deepEqual(storedFiles(uploadId), []);
    assert.deepEqual(readdirSync(dirname(target)), ["target.bin"]);
  });
}

test(`${rounds} uploads whose daemon is killed in every step are old or new and leave no part`, {
  timeout: 1_100_000,
}, async (t) => {
  // On a quick machine a completion is over before many a kill.
  const isMet = (): boolean => rounds < 10 || (broken.part > 0 && broken.complete > 0);
  let round = 0;
  for (; round < rounds || (!isMet() && round < 10 * rounds); round += 1) {
    await endUpload(round % 3 === 2, await uploadParts(round));
  }
  t.diagnostic(`requests that kills cut short: ${JSON.stringify(broken)}`);
  assert.equal(sandbox.kills, 2 * round);
  assert.ok(isMet(), "no kill met a part, or none met a completion");
});

test("abandoned uploads are collected with what unheard parts left, also when the daemon is killed meanwhile", {
  timeout: 120_000,
}, async () => {
  const target = join(sandbox.workingDir, "abandoned.bin");
  writeFileSync(target, "old");
  const abandoned = await Promise.all(Array.from({ length: 20 }, () => initiate(target)));
  await killDuring(100, Promise.all(abandoned.map((uploadId) => uploadPart(uploadId, 1))));
  assert.ok(storedFiles().length >= abandoned.length);
  await sandbox.restart({ multipartTtlMs: 1 });
  const openUploads = async (): Promise<MultipartUpload[]> =>
    ((await untilAnswered(undefined, "GET", "")).json as { uploads: MultipartUpload[] }).uploads;
  await killDuring(10, openUploads());
  await eventually(async () => assert.deepEqual(await openUploads(), []));
  await eventually(() => assert.deepEqual(readdirSync(sandbox.multipartRoot), []));
  const records = readdirSync(join(sandbox.directory, "state/uploads"));
  for (const uploadId of abandoned) assert.ok(!records.includes(`${uploadId}.jsonl`));
  assert.equal(readFileSync(target, "utf8"), "old");
});
