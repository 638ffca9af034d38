// Files and directories over HTTP: paths, reading, writing, ranges, removal.
import assert from "node:assert/strict";
import { chownSync, existsSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import type { Directory, FileWithContent } from "../../src/contract/sandbox-api/filesystem.ts";
import { form } from "./form.ts";
import { type Answer, TestSandbox } from "./harness.ts";

let sandbox: TestSandbox;
before(async () => {
  sandbox = await TestSandbox.start();
});
after(() => sandbox[Symbol.asyncDispose]());

const encoded = (path: string): string => encodeURIComponent(path);
const work = (...parts: string[]): string => join(sandbox.workingDir, ...parts);

async function put(path: string, json: object): Promise<Answer> {
  return sandbox.ask("PUT", `/filesystem/${path}`, { json });
}

function assertError(answer: Answer, status: number, message?: RegExp): void {
  // What comes instead may be a large file.
  assert.equal(answer.status, status, answer.text.slice(0, 1_000));
  assert.deepEqual(Object.keys(answer.json as object), ["error"]);
  if (message !== undefined) assert.match((answer.json as { error: string }).error, message);
}

suite("paths", () => {
  const paths: [what: string, raw: () => string, path: () => string][] = [
    ["a plain path is relative to the working directory", () => "p/a.txt", () => work("p/a.txt")],
    ["an encoded slash makes it absolute", () => encoded(work("p/b.txt")), () => work("p/b.txt")],
    [
      "an encoded slash without one in front is absolute too",
      () => encoded(work("p/c.txt").slice(1)),
      () => work("p/c.txt"),
    ],
    ["a double slash makes it absolute", () => work("p/d.txt"), () => work("p/d.txt")],
    ["~ is the home directory", () => "~/e.txt", () => join(sandbox.homeDir, "e.txt")],
    ["an encoded ~ path is in the home directory", () => encoded("~/f.txt"), () => join(sandbox.homeDir, "f.txt")],
    ["spaces and other characters are decoded", () => "p/%20g%3F%C3%A9.txt", () => work("p/ g?é.txt")],
    ["dots are resolved", () => "p/x/../h.txt", () => work("p/h.txt")],
    ["a lower-case encoding counts", () => encoded(work("p/i.txt")).replaceAll("%2F", "%2f"), () => work("p/i.txt")],
  ];
  for (const [what, raw, path] of paths) {
    test(what, async () => {
      const answer = await put(raw(), { content: what });
      assert.deepEqual(
        [answer.status, answer.json],
        [200, { path: path(), message: "File created/updated successfully" }],
      );
      assert.equal(readFileSync(path(), "utf8"), what);
      const read = await sandbox.ask("GET", `/filesystem/${raw()}`);
      assert.equal((read.json as FileWithContent).content, what);
    });
  }

  test("nothing after the prefix is the working directory", async () => {
    for (const path of ["/filesystem", "/filesystem/", "/filesystem/?x=1"]) {
      assert.equal(((await sandbox.ask("GET", path)).json as Directory).path, sandbox.workingDir);
    }
  });

  test("what is no path is 400", async () => {
    assertError(await sandbox.ask("GET", "/filesystem/a%00b"), 400, /NUL/);
    assertError(await sandbox.ask("GET", "/filesystem/a%ff"), 400);
    assertError(await sandbox.ask("GET", `/filesystem/${"x/".repeat(2_100)}`), 400, /4095/);
  });
});

suite("reading", () => {
  test("a file as JSON has its facts and an empty name", async () => {
    writeFileSync(work("facts.txt"), "h\u00e9llo \u0001\n", { mode: 0o640 });
    const answer = await sandbox.ask("GET", "/filesystem/facts.txt");
    const { lastModified, ...rest } = answer.json as FileWithContent;
    assert.deepEqual(rest, {
      path: work("facts.txt"),
      name: "",
      permissions: "0640",
      size: 9,
      owner: "root",
      group: "root",
      content: "h\u00e9llo \u0001\n",
    });
    assert.ok(Math.abs(Date.parse(lastModified) - statSync(work("facts.txt")).mtimeMs) < 1_000);
  });

  test("owner and group are told by their names, without one by their numbers", async () => {
    writeFileSync(work("owned.txt"), "");
    for (const [uid, gid, owner, group] of [
      [1, 0, "daemon", "root"],
      [54_321, 54_322, "54321", "54322"],
    ] as const) {
      chownSync(work("owned.txt"), uid, gid);
      const found = (await sandbox.ask("GET", "/filesystem/owned.txt")).json as FileWithContent;
      assert.deepEqual([found.owner, found.group], [owner, group]);
    }
  });

  test("characters and bytes of every kind come through the pieces a large file is read in", async () => {
    const content = '\u20ac"\\\n\u0007\u{1f600}'.repeat(100_000);
    writeFileSync(work("large.txt"), content);
    const answer = await sandbox.ask("GET", "/filesystem/large.txt");
    assert.equal((answer.json as FileWithContent).content, content);
  });

  test("a file above 64 MiB is not answered as JSON, and the refusal says what to do", async () => {
    writeFileSync(work("huge.bin"), Buffer.alloc(64 * 1024 * 1024 + 1));
    assertError(await sandbox.ask("GET", "/filesystem/huge.bin"), 422, /download=true/);
  });

  test("a directory lists files and subdirectories one level deep", async () => {
    mkdirSync(work("dir/sub/deeper"), { recursive: true });
    writeFileSync(work("dir/b.txt"), "bb");
    writeFileSync(work("dir/a.txt"), "a");
    symlinkSync("a.txt", work("dir/link"));
    for (const path of [
      "/filesystem/dir",
      `/filesystem/tree/${encoded(work("dir"))}`,
      `/filesystem/tree/${work("dir")}`,
    ]) {
      const found = (await sandbox.ask("GET", path)).json as Directory;
      assert.deepEqual([found.path, found.name], [work("dir"), "dir"]);
      assert.deepEqual(found.subdirectories, [{ path: work("dir/sub"), name: "sub" }]);
      assert.deepEqual(
        found.files.map(({ name }) => name),
        ["a.txt", "b.txt", "link"],
      );
      assert.deepEqual([found.files[1]!.path, found.files[1]!.size], [work("dir/b.txt"), 2]);
    }
  });

  test("a tree of something that is no directory is 400, of nothing 404", async () => {
    writeFileSync(work("leaf"), "");
    assertError(await sandbox.ask("GET", `/filesystem/tree/${encoded(work("leaf"))}`), 400, /not a directory/);
    assertError(await sandbox.ask("GET", `/filesystem/tree/${encoded(work("none"))}`), 404);
  });

  test("what is not there is 404", async () => {
    assertError(await sandbox.ask("GET", "/filesystem/none"), 404);
    assertError(await sandbox.ask("GET", "/filesystem/none?download=true"), 404);
  });

  test("names from inside are only data", async () => {
    const name = 'a"b\r\nset-cookie: x=1\n\\é.txt';
    writeFileSync(work(name), "x");
    const answer = await sandbox.ask("GET", `/filesystem/${encoded(work(name))}?download=true`);
    assert.equal(answer.status, 200);
    assert.equal(answer.headers["set-cookie"], undefined);
    assert.equal(
      answer.headers["content-disposition"],
      "attachment; filename=\"a_b__set-cookie: x=1___.txt\"; filename*=UTF-8''a%22b%0D%0Aset-cookie%3A%20x%3D1%0A%5C%C3%A9.txt",
    );
  });
});

suite("writing", () => {
  test("permissions are octal text, with defaults for files and directories", async () => {
    const mode = (path: string): string => (statSync(work(path)).mode & 0o7777).toString(8);
    await put("mode/default", { content: "x" });
    await put("mode/own", { content: "x", permissions: "0600" });
    const made = await put("mode/dir", { isDirectory: true });
    assert.deepEqual(made.json, { path: work("mode/dir"), message: "Directory created successfully" });
    await put("mode/dir-own", { isDirectory: true, permissions: "700" });
    assert.deepEqual(["mode/default", "mode/own", "mode/dir", "mode/dir-own"].map(mode), ["644", "600", "755", "700"]);
    assertError(await put("mode/bad", { content: "x", permissions: "rwx" }), 400, /octal/);
    assertError(await put("mode/bad", { content: "x", permissions: "9" }), 400);
    assert.ok(!existsSync(work("mode/bad")));
  });

  test("a file is replaced, an empty body makes an empty file, a directory may be there already", async () => {
    await put("again", { content: "one" });
    await put("again", { content: "two" });
    assert.equal(readFileSync(work("again"), "utf8"), "two");
    assert.equal((await put("void", {})).status, 200);
    assert.equal(readFileSync(work("void"), "utf8"), "");
    await put("there", { isDirectory: true });
    assert.equal((await put("there", { isDirectory: true })).status, 200);
  });

  test("what cannot be written is 422", async () => {
    await put("plain", { content: "x" });
    assertError(await put("plain/below", { content: "x" }), 422);
    assertError(await put("plain", { isDirectory: true }), 422);
    mkdirSync(work("full-dir/x"), { recursive: true });
    assertError(await put("full-dir", { content: "x" }), 422);
  });

  test("a broken body is 400, another content type 415, a JSON body above the limit 413", async () => {
    const headers = { "content-type": "application/json" };
    assertError(await sandbox.ask("PUT", "/filesystem/x", { headers, body: "{" }), 400, /JSON/);
    assertError(await put("x", { content: 1 }), 400, /content/);
    assertError(
      await sandbox.ask("PUT", "/filesystem/x", { headers: { "content-type": "text/plain" }, body: "x" }),
      415,
    );
    assertError(await put("x", { content: "x".repeat(17 * 1024 * 1024) }), 413, /multipart form/);
    assert.ok(!existsSync(work("x")));
  });

  test("a form with a file writes its bytes", async () => {
    const bytes = Buffer.from(Array.from({ length: 100_000 }, (_, index) => (index * 7) % 256));
    const answer = await sandbox.ask("PUT", `/filesystem/${work("form.bin")}`, form([["file", bytes, "x.bin"]]));
    assert.deepEqual(
      [answer.status, answer.json],
      [200, { path: work("form.bin"), message: "Binary file uploaded successfully" }],
    );
    assert.ok(readFileSync(work("form.bin")).equals(bytes));
  });

  test("the permissions of a form count before and after the file, its path never", async () => {
    const file = ["file", Buffer.from("x"), "x"] as const;
    const fields = [
      ["permissions", "0751"],
      ["path", "/elsewhere"],
    ] as const;
    for (const [name, parts] of [
      ["first", [...fields, file]],
      ["last", [file, ...fields]],
    ] as const) {
      assert.equal((await sandbox.ask("PUT", `/filesystem/perm-${name}`, form([...parts]))).status, 200);
      assert.equal(statSync(work(`perm-${name}`)).mode & 0o7777, 0o751, name);
      assert.equal(readFileSync(work(`perm-${name}`), "utf8"), "x");
    }
  });

  test("a large file whose permissions come late is never open to others, and is not written twice", async () => {
    const bytes = Buffer.alloc(3_000_000, "x");
    for (const permissions of ["0600", "0755"]) {
      const sent = form([
        ["file", bytes, "x"],
        ["permissions", permissions],
      ]);
      assert.equal((await sandbox.ask("PUT", "/filesystem/late", sent)).status, 200);
      assert.equal(statSync(work("late")).mode & 0o7777, Number.parseInt(permissions, 8));
      assert.ok(readFileSync(work("late")).equals(bytes));
    }
  });

  test("a form without a file, with a broken end or without a boundary is 400 and leaves the old file", async () => {
    await put("old", { content: "old" });
    assertError(await sandbox.ask("PUT", "/filesystem/old", form([["permissions", "0644"]])), 400, /'file'/);
    assertError(await sandbox.ask("PUT", "/filesystem/old", form([["file", "no file name"]])), 400, /'file'/);
    const whole = form([["file", Buffer.alloc(300_000, "n"), "x"]]);
    assertError(await sandbox.ask("PUT", "/filesystem/old", { ...whole, body: whole.body.subarray(0, -30) }), 400);
    const headers = { "content-type": "multipart/form-data" };
    assertError(await sandbox.ask("PUT", "/filesystem/old", { ...whole, headers }), 400, /boundary/);
    assert.equal(readFileSync(work("old"), "utf8"), "old");
  });
});

suite("removing", () => {
  test("files, empty directories, and trees with recursive", async () => {
    mkdirSync(work("rm/sub"), { recursive: true });
    writeFileSync(work("rm/file"), "x");
    assertError(await sandbox.ask("DELETE", "/filesystem/rm"), 422);
    assertError(await sandbox.ask("DELETE", "/filesystem/rm?recursive=false"), 422);
    assert.equal((await sandbox.ask("DELETE", "/filesystem/rm/file")).status, 200);
    assert.equal((await sandbox.ask("DELETE", "/filesystem/rm/sub")).status, 200);
    writeFileSync(work("rm/file"), "x");
    const answer = await sandbox.ask("DELETE", "/filesystem/rm?recursive=true");
    assert.deepEqual([answer.status, (answer.json as { path: string }).path], [200, work("rm")]);
    assert.ok(!existsSync(work("rm")));
    assertError(await sandbox.ask("DELETE", "/filesystem/rm"), 404);
    assertError(await sandbox.ask("DELETE", "/filesystem/rm?recursive=maybe"), 400, /recursive/);
  });
});
