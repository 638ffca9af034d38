// Where address and key come from, and where a key never goes.
import assert from "node:assert/strict";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { findCredentials, readCredentialsFile, writeCredentialsFile } from "../../src/cli/credentials.ts";
import { cli } from "./run-cli.ts";

const dir = mkdtempSync(join(tmpdir(), "cli-credentials-"));
after(() => rmSync(dir, { recursive: true }));

const local = { url: "http://127.0.0.1:4000", apiKey: "local-key", workspace: "main", region: "local" };
const dataDir = join(dir, "data");
const homeDir = join(dir, "home");
const keyFile = join(dir, "key");
for (const made of [dataDir, join(homeDir, ".catnap")]) mkdirSync(made, { recursive: true });
writeCredentialsFile(join(dataDir, "credentials.json"), local);
writeCredentialsFile(join(homeDir, ".catnap", "credentials.json"), { url: "https://far.example", apiKey: "home-key" });
writeFileSync(keyFile, "file-key\n", { mode: 0o600 });

type Case = {
  what: string;
  env?: Record<string, string>;
  flags?: Record<string, string>;
  found?: Record<string, string | undefined>;
  fails?: RegExp;
};

const CATNAP_DATA_DIR = dataDir;
const cases: Case[] = [
  { what: "the file of a local platform", env: { CATNAP_DATA_DIR }, found: { ...local } },
  {
    what: "the flag before the environment",
    env: { CATNAP_DATA_DIR: "/nope" },
    flags: { dataDir },
    found: { ...local },
  },
  {
    what: "the file at home when there is no local platform",
    env: { CATNAP_DATA_DIR: "/nope" },
    found: { url: "https://far.example", apiKey: "home-key" },
  },
  {
    what: "the environment before files",
    env: { CATNAP_DATA_DIR, CATNAP_URL: "https://x.example/v0/", CATNAP_API_KEY: "k" },
    found: { url: "https://x.example", apiKey: "k" },
  },
  {
    what: "a key of one's own for the local platform",
    env: { CATNAP_DATA_DIR, CATNAP_API_KEY: "mine" },
    found: { url: local.url, apiKey: "mine", region: "local" },
  },
  {
    what: "a key file for an address",
    flags: { url: "http://x.example", apiKeyFile: keyFile },
    found: { url: "http://x.example", apiKey: "file-key" },
  },
  {
    what: "a workspace by name",
    env: { CATNAP_DATA_DIR, CATNAP_WORKSPACE: "other" },
    found: { ...local, workspace: "other" },
  },
  {
    what: "the file's key for its own address",
    env: { CATNAP_DATA_DIR, CATNAP_URL: `${local.url}/v0` },
    found: { ...local },
  },
  {
    what: "no key of a file for another address",
    env: { CATNAP_DATA_DIR, CATNAP_URL: "http://evil.example" },
    fails: /no API key for http:\/\/evil/,
  },
  {
    what: "no address that is not one",
    env: { CATNAP_URL: "ftp://x", CATNAP_API_KEY: "k" },
    fails: /must begin with http/,
  },
  { what: "no key file that is not there", flags: { url: "http://x", apiKeyFile: "/nope" }, fails: /cannot be read/ },
];

for (const { what, env = {}, flags = {}, found, fails } of cases) {
  test(`uses ${what}`, () => {
    const find = () => findCredentials({ env, homeDir, flags, warn: (message) => assert.fail(message) });
    if (fails !== undefined) assert.throws(find, fails);
    else assert.deepEqual(JSON.parse(JSON.stringify(find())), JSON.parse(JSON.stringify(found)));
  });
}

test("says how to begin when there is no platform at all", () => {
  const query = { env: { CATNAP_DATA_DIR: "/nope" }, homeDir: "/nope", flags: {}, warn: () => undefined };
  assert.throws(() => findCredentials(query), /No platform has been started/);
});

test("the file is written for its owner alone, and one that others can read is warned of", () => {
  const path = join(dir, "loose.json");
  writeCredentialsFile(path, local);
  assert.equal(statSync(path).mode & 0o777, 0o600);
  const warnings: string[] = [];
  chmodSync(path, 0o644);
  assert.equal(readCredentialsFile(path, (message) => warnings.push(message))?.apiKey, "local-key");
  assert.deepEqual(warnings, [`${path} can be read by others; mend it with: chmod 600 ${path}`]);
});

test("a broken file is named without showing what is in it", () => {
  const path = join(dir, "broken.json");
  writeFileSync(path, '{"apiKey":"secret-part', { mode: 0o600 });
  assert.throws(
    () => readCredentialsFile(path, () => undefined),
    (error: Error) => error.message === `${path} is not a JSON object.` && !String(error.cause).includes("secret-part"),
  );
});

test("credentials prints the environment of the official client, or the key alone", async () => {
  const env = { CATNAP_DATA_DIR };
  const { stdout } = await cli(["credentials"], { env });
  assert.equal(
    stdout,
    `export BL_API_URL=http://127.0.0.1:4000/v0
export BL_RUN_URL=http://127.0.0.1:4000/run
export BL_API_KEY=local-key
export BL_WORKSPACE=main
export BL_REGION=local
export BL_DISABLE_H2=1
export DO_NOT_TRACK=1
`,
  );
  assert.equal((await cli(["credentials", "--key"], { env })).stdout, "local-key\n");
  assert.deepEqual(JSON.parse((await cli(["credentials", "--json"], { env })).stdout), local);
});
