// Archives of volume templates: what unpacks to plain files and directories is accepted, everything else is refused with its name.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { gzipSync, zstdCompressSync } from "node:zlib";
import fc from "fast-check";
import { TarCheck } from "../../../src/control-plane/volume-templates/tar/check.ts";
import { archive, end, entry, pax, paxBody } from "./tar-archive.ts";

/** Why it is refused, or undefined. Written in pieces of the given length. */
function refusalOf(bytes: Buffer, pieceBytes = 65_536, entriesMax = 1_000): string | undefined {
  const check = new TarCheck({ entriesMax });
  try {
    for (let at = 0; at < bytes.length; at += pieceBytes) check.write(bytes.subarray(at, at + pieceBytes));
    check.end();
  } catch (error) {
    assert.equal((error as Error).name, "TarRefusal", String(error));
    return (error as Error).message;
  }
  return undefined;
}

const file = { name: "a/b.txt", content: "hello" };
const deep = (depth: number): string => Array.from({ length: depth }, () => "d").join("/");

const accepted: [string, Buffer][] = [
  ["files and directories", archive({ name: "./", type: "5" }, { name: "a/", type: "5" }, file)],
  ["nothing at all", archive()],
  ["a directory that is named twice", archive({ name: "a/", type: "5" }, file, { name: "./a", type: "5" })],
  ["the padding of a large record", Buffer.concat([archive(file), Buffer.alloc(1_048_576)])],
  ["a file type of old writers", archive({ name: "a", type: "\0" })],
  ["a prefix", archive({ name: "b", prefix: "a" })],
  ["the GNU format", archive({ name: "b", magic: "ustar  \0" })],
  ["a pax path", archive(pax({ path: "ä/long" }), { name: "short" })],
  ["a pax size", archive(pax({ size: "3" }), { name: "a", content: "abc", sizeBytes: 0 })],
  ["a global pax header", archive(pax({ comment: "of a commit" }, "g"), file)],
  ["a long GNU name", archive(entry({ name: "././@LongLink", type: "L", content: `${"n".repeat(200)}\0` }), file)],
  ["names that begin like compressed archives", archive({ name: "BZh" })],
  ["a depth of 64", archive(pax({ path: deep(64) }), file)],
  ["a name of 255 bytes", archive(pax({ path: "n".repeat(255) }), file)],
];

const refused: [string, Buffer, RegExp][] = [
  ["nothing", Buffer.alloc(0), /is empty/],
  ["a symbolic link", archive({ name: "l", type: "2", linkName: "/etc" }), /"l" is a symbolic link/],
  ["a hard link", archive(file, { name: "l", type: "1", linkName: "a/b.txt" }), /"l" is a hard link/],
  ["a character device", archive({ name: "d", type: "3" }), /"d" is a character device/],
  ["a block device", archive({ name: "d", type: "4" }), /"d" is a block device/],
  ["a fifo", archive({ name: "f", type: "6" }), /"f" is a fifo/],
  ["an unknown type", archive({ name: "f", type: "Z" }), /"f" is of the unknown type "Z"/],
  ["a sparse file of GNU", archive({ name: "f", type: "S", magic: "ustar  \0" }), /sparse/],
  ["a sparse file of pax", archive(pax({ "GNU.sparse.major": "1" }), file), /sparse/],
  ["an absolute path", archive({ name: "/etc/passwd" }), /"\/etc\/passwd" is absolute/],
  ["an absolute pax path", archive(pax({ path: "/etc/passwd" }), file), /is absolute/],
  ["an absolute prefix", archive({ name: "passwd", prefix: "/etc" }), /is absolute/],
  ["a path upwards", archive({ name: "a/../../b" }), /has a \.\. in it/],
  ["a path upwards in a prefix", archive({ name: "b", prefix: ".." }), /has a \.\. in it/],
  ["no name", archive({ name: "" }), /has no name/],
  ["a file at the root", archive({ name: "./" }), /names the root/],
  ["a file named as a directory", archive({ name: "a/" }), /named like a directory/],
  ["the same file twice", archive(file, { name: "./a//b.txt" }), /occurs twice/],
  ["a file and a directory of one name", archive(file, { name: "a/b.txt", type: "5" }), /both a file and a directory/],
  ["a file in place of an implied directory", archive(file, { name: "a" }), /both a file and a directory/],
  ["a file below a file", archive({ name: "a" }, file), /below a path that is a file/],
  ["a NUL in a pax path", archive(pax({ path: "a\0b" }), file), /control characters/],
  ["a NUL in a long name", archive(entry({ name: "L", type: "L", content: "a\0b\0" }), file), /control characters/],
  ["an escape in a name", archive({ name: "\x1b[2J" }), /control characters/],
  ["a name that is not UTF-8", archive({ name: "x", edit: (header) => header.fill(0xff, 0, 4) }), /not UTF-8/],
  ["a name of 256 bytes", archive(pax({ path: "n".repeat(256) }), file), /more than 255 bytes/],
  ["a path of more than 2,048 bytes", archive(pax({ path: `${"n".repeat(250)}/`.repeat(9) }), file), /2048 bytes/],
  ["a depth of 65", archive(pax({ path: deep(65) }), file), /more than 64 deep/],
  ["a wrong checksum", archive({ ...file, checksumOff: 1 }), /header 1 .* wrong checksum/],
  ["the format of old writers", archive({ name: "a", magic: "" }), /neither in the ustar/],
  [
    "a size that is none",
    archive({ name: "a", edit: (header) => header.write("9", 124) }),
    /size in header 1 .* number/,
  ],
  [
    "a size out of range",
    archive({ name: "a", edit: (header) => header.fill(0xff, 125, 136).fill(0x80, 124, 125) }),
    /range/,
  ],
  ["a negative size", archive({ name: "a", edit: (header) => header.fill(0xff, 124, 136) }), /size in header 1/],
  ["a directory with content", archive({ name: "a/", type: "5", content: "x" }), /has content/],
  [
    "a pax header of 65,537 bytes",
    archive(entry({ name: "x", type: "x", content: "y".repeat(65_537) })),
    /extension of 65537/,
  ],
  ["an empty pax header", archive(entry({ name: "x", type: "x" }), file), /extension of 0/],
  ["a malformed pax header", archive(entry({ name: "x", type: "x", content: "99 path=a\n" }), file), /malformed/],
  ["a pax record without an end", archive(entry({ name: "x", type: "x", content: "7 a=bcd" }), file), /malformed/],
  ["65 pax records", archive(entry({ name: "x", type: "x", content: "6 a=b\n".repeat(65) }), file), /malformed/],
  [
    "a pax path that occurs twice",
    archive(entry({ name: "x", type: "x", content: paxBody({ path: "a" }).repeat(2) }), file),
    /twice/,
  ],
  ["a pax size that is none", archive(pax({ size: "-1" }), file), /not a number/],
  ["another character set", archive(pax({ hdrcharset: "BINARY" }), file), /not in UTF-8/],
  ["a global path", archive(pax({ path: "all" }, "g"), file), /global pax header sets path/],
  ["two pax headers of one entry", archive(pax({ mtime: "1" }), pax({ mtime: "1" }), file), /two extended headers/],
  [
    "two long names of one entry",
    archive(pax({ path: "p" }), entry({ name: "L", type: "L", content: "l\0" }), file),
    /two long names/,
  ],
  ["a chain of extensions", archive(...Array.from({ length: 5 }, () => pax({ comment: "c" }, "g")), file), /too many/],
  ["an extension without an entry", archive(pax({ mtime: "1" })), /belongs to no entry/],
  ["no end", entry(file), /cut off/],
  ["half an end", Buffer.concat([entry(file), Buffer.alloc(512)]), /cut off/],
  ["half a file", archive({ name: "a", content: "x".repeat(2_000) }).subarray(0, 1_024), /cut off/],
  ["half a header", entry(file).subarray(0, 300), /too short/],
  ["an entry after its end", Buffer.concat([archive(file), entry(file)]), /follows the end/],
  [
    "an entry after half an end",
    Buffer.concat([entry(file), Buffer.alloc(512), entry({ name: "c" }), end]),
    /follows the end/,
  ],
  ["a byte after its end", Buffer.concat([archive(file), Buffer.from("x")]), /follows the end/],
  ["endless padding", Buffer.concat([archive(file), Buffer.alloc(4 * 1_048_576 + 1)]), /follows the end/],
  ["gzip", gzipSync(archive(file)), /compressed \(gzip\)/],
  ["zstd", zstdCompressSync(archive(file)), /compressed \(zstd\)/],
  [
    "a large gzip",
    gzipSync(Buffer.from(Array.from({ length: 4_096 }, (_, at) => (at * 2_654_435_761) >>> 13))),
    /gzip/,
  ],
  ["a zip", Buffer.concat([Buffer.from("PK\x03\x04"), Buffer.alloc(600, 1)]), /zip/],
  ["text", Buffer.alloc(2_000, "no archive "), /header 1/],
];

describe("an archive is accepted with", () => {
  for (const [what, bytes] of accepted) {
    for (const pieceBytes of [65_536, 512, 7]) {
      test(`${what}, ${pieceBytes} bytes at a time`, () => assert.equal(refusalOf(bytes, pieceBytes), undefined));
    }
  }
});

describe("an archive is refused for", () => {
  for (const [what, bytes, reason] of refused) {
    test(what, () => {
      assert.match(refusalOf(bytes) ?? "accepted", reason);
      if (bytes.length < 100_000) assert.equal(refusalOf(bytes, 13), refusalOf(bytes), "whatever the pieces are");
    });
  }

  test("more files and directories than the limit, implied ones included", () => {
    assert.equal(refusalOf(archive({ name: "a/b/c" }), 512, 3), undefined);
    assert.match(refusalOf(archive({ name: "a/b/c" }, { name: "d" }), 512, 3) ?? "", /more than 3 files/);
  });
});

test("a reason shows names in printable ASCII, cut", () => {
  const name = `\u202e${"x".repeat(200)}"`;
  const reason = refusalOf(archive(pax({ path: `/${name}` }), file)) ?? "";
  assert.match(reason, /^[\x20-\x7e]{1,200}$/);
  assert.ok(reason.includes("\\u202e"));
});

test("what GNU tar writes is accepted, in its formats that are not older than ustar", () => {
  const dir = mkdtempSync(join(tmpdir(), "catnap-tar-"));
  try {
    const source = join(dir, "source");
    mkdirSync(join(source, "a", "b".repeat(120)), { recursive: true });
    writeFileSync(join(source, "a", "b".repeat(120), "c".repeat(200)), "content");
    writeFileSync(join(source, "ü.txt"), Buffer.alloc(100_000, 7));
    for (const format of ["gnu", "pax"]) {
      const path = join(dir, `${format}.tar`);
      const made = spawnSync("tar", [`--format=${format}`, "-C", source, "-cf", "-", "."], { maxBuffer: 10_000_000 });
      assert.equal(made.status, 0, `${path}: ${made.stderr}`);
      assert.equal(refusalOf(made.stdout), undefined, format);
    }
  } finally {
    rmSync(dir, { recursive: true });
  }
});

const segment = fc.stringMatching(/^[a-z]{1,8}$/);
const entries = fc.uniqueArray(
  fc.record({ path: fc.array(segment, { minLength: 1, maxLength: 4 }), content: fc.uint8Array({ maxLength: 1_500 }) }),
  { maxLength: 12, selector: ({ path }) => path.join("/") },
);
/** Without files below files. */
const trees = entries.map((all) =>
  all.filter(
    ({ path }) =>
      !all.some(
        (other) => `${other.path.join("/")}/`.startsWith(`${path.join("/")}/`) && other.path.length > path.length,
      ),
  ),
);

function build(all: readonly { path: string[]; content: Uint8Array }[]): Buffer {
  return archive(...all.map(({ path, content }) => ({ name: path.join("/"), content: Buffer.from(content) })));
}

test("any tree of files is accepted, in pieces of any length", () => {
  fc.assert(
    fc.property(trees, fc.integer({ min: 1, max: 3_000 }), (all, pieceBytes) => {
      assert.equal(refusalOf(build(all), pieceBytes), undefined);
    }),
    { numRuns: 300 },
  );
});

test("an archive that is cut anywhere before its end is refused", () => {
  fc.assert(
    fc.property(trees, fc.double({ min: 0, max: 0.999, noNaN: true }), (all, part) => {
      const whole = build(all);
      assert.notEqual(refusalOf(whole.subarray(0, Math.floor(whole.length * part))), undefined);
    }),
    { numRuns: 300 },
  );
});

test("an archive with any bytes replaced is refused or is still one that GNU tar lists without links, devices and ways out", () => {
  fc.assert(
    fc.property(trees, fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 4 }), (all, edits) => {
      const bytes = build(all);
      for (const [at, value] of edits) bytes[at % bytes.length] = value;
      if (refusalOf(bytes) !== undefined) return;
      const { stdout, status } = spawnSync("tar", ["-tvf", "-", "--quoting-style=escape"], {
        input: bytes,
        encoding: "utf8",
      });
      assert.equal(status, 0);
      for (const line of stdout.split("\n").filter((each) => each !== "")) {
        assert.match(line, /^[-d]/);
        assert.doesNotMatch(line, /\s\/|\.\.\//);
      }
    }),
    { numRuns: 150 },
  );
});
