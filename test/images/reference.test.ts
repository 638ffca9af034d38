// Names of images in registries: what is understood, and that nothing else is.
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseReference } from "../../src/host/images/reference.ts";

const digest = `sha256:${"ab".repeat(32)}`;

const understood: [string, string][] = [
  ["alpine", "docker.io/library/alpine:latest"],
  ["alpine:3.19", "docker.io/library/alpine:3.19"],
  ["user/app", "docker.io/user/app:latest"],
  ["index.docker.io/user/app:1", "docker.io/user/app:1"],
  ["ghcr.io/a/b/c:v1.2-rc_3", "ghcr.io/a/b/c:v1.2-rc_3"],
  ["GHCR.io/a/b", "ghcr.io/a/b:latest"],
  ["localhost/app", "localhost/app:latest"],
  ["127.0.0.1:5000/app:1", "127.0.0.1:5000/app:1"],
  [`alpine@${digest}`, `docker.io/library/alpine@${digest}`],
  [`alpine:3.19@${digest}`, `docker.io/library/alpine@${digest}`],
];

const refused = [
  "",
  " ",
  "a b",
  "-rm",
  "--help",
  "--src-creds=a:b",
  "docker://alpine",
  "oci:/etc",
  "dir:/etc/shadow",
  "/etc/passwd",
  "./layout",
  "../alpine",
  "a/../b",
  "a//b",
  "registry.example/",
  "registry.example//a",
  "Alpine",
  "alpine:",
  "alpine:a:b",
  "alpine:-tag",
  `alpine:${"t".repeat(129)}`,
  "alpine@sha256:abc",
  `alpine@md5:${"a".repeat(32)}`,
  `alpine@${digest}@${digest}`,
  "user@host/app",
  "registry.example:port/app",
  "registry..example/app",
  "[::1]:5000/app",
  "alpine\n",
  "alpine\0",
  "alp\u0456ne",
  `registry.example/${"a".repeat(300)}`,
];

for (const [text, complete] of understood) {
  test(`${text} means ${complete}`, () => assert.equal(parseReference(text)?.text, complete));
}

for (const text of refused) {
  test(`${JSON.stringify(text).slice(0, 60)} names no image`, () => assert.equal(parseReference(text), undefined));
}

test("only a digest pins an image", () => {
  assert.equal(parseReference("alpine:3.19")?.pinned, false);
  assert.equal(parseReference(`alpine@${digest}`)?.pinned, true);
});
