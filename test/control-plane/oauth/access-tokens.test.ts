// Access tokens that are not what they seem, and the keys that sign the real ones.
import assert from "node:assert/strict";
import { createHmac, createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { SignJWT } from "jose";
import type { OauthSigningKeysTable } from "../../../src/control-plane/db/tables/oauth-signing-keys.ts";
import { SigningKeys } from "../../../src/control-plane/oauth/signing-keys.ts";
import { SealKey } from "../../../src/core/seal.ts";
import { type Server, startServer } from "../harness.ts";
import { addServiceAccount, decodeJwt, requestToken } from "./browser.ts";

let server: Server;
let basic: string;

before(async () => {
  server = await startServer();
  ({ basic } = await addServiceAccount(server));
});

after(async () => {
  await server[Symbol.asyncDispose]();
});

const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");
const getToken = async (): Promise<string> =>
  (await requestToken(server, { grant_type: "client_credentials" }, { basic })).body.access_token;
const use = async (token: string): Promise<number> =>
  (await server.call("GET", "/v0/sandboxes", { key: token })).status;

async function publicJwk(): Promise<{ kid: string }> {
  return JSON.parse((await server.call("GET", "/v0/oauth/jwks", { key: null })).text).keys[0];
}

describe("a forged access token is refused", () => {
  type Forge = (parts: {
    header: object;
    payload: Record<string, unknown>;
    signature: string;
  }) => Promise<string> | string;
  const foreign = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const sign = (payload: Record<string, unknown>, header: object, key: KeyObject = foreign.privateKey) =>
    new SignJWT(payload).setProtectedHeader({ alg: "ES256", ...header }).sign(key);
  const forgeries: Record<string, Forge> = {
    "without a signature, alg none": ({ header, payload }) =>
      `${encode({ ...header, alg: "none" })}.${encode(payload)}.`,
    "alg none with a signature": ({ header, payload, signature }) =>
      `${encode({ ...header, alg: "none" })}.${encode(payload)}.${signature}`,
    "signed with the public key as a shared secret": async ({ header, payload }) => {
      const pem = createPublicKey({ key: (await publicJwk()) as never, format: "jwk" });
      const text = `${encode({ ...header, alg: "HS256" })}.${encode(payload)}`;
      const secret = pem.export({ type: "spki", format: "pem" });
      return `${text}.${createHmac("sha256", secret).update(text).digest("base64url")}`;
    },
    "with more rights": ({ header, payload, signature }) =>
      `${encode(header)}.${encode({ ...payload, scope: "admin" })}.${signature}`,
    "signed by another key under our key's name": ({ header, payload }) => sign(payload, header),
    "signed by a key it brings along": ({ header, payload }) =>
      sign(payload, { ...header, jwk: foreign.publicKey.export({ format: "jwk" }), jku: "https://evil.example" }),
    "of an unknown key": ({ payload }) => sign(payload, { typ: "at+jwt", kid: "nobody" }),
    "without a key id": ({ payload }) => sign(payload, { typ: "at+jwt" }),
    "cut short": ({ header, payload, signature }) => `${encode(header)}.${encode(payload)}.${signature.slice(0, 40)}`,
    "in five parts": ({ header, payload, signature }) => `${encode(header)}.a.b.${encode(payload)}.${signature}`,
    "of eight thousand characters": ({ header, payload, signature }) =>
      `${encode(header)}.${encode({ ...payload, padding: "x".repeat(6_000) })}.${signature}`,
    "of nine thousand characters": ({ header, payload, signature }) =>
      `${encode(header)}.${encode({ ...payload, padding: "x".repeat(9_000) })}.${signature}`,
  };
  for (const [what, forge] of Object.entries(forgeries)) {
    test(what, async () => {
      const token = await getToken();
      const forged = await forge({ ...decodeJwt(token), signature: token.split(".")[2]! });
      assert.equal(await use(forged), 401);
      assert.equal(await use(token), 200);
    });
  }
});

describe("a token signed by our own key is refused", () => {
  /** As if the server itself had signed it: only the claims can give it away. */
  const sign = async (claims: Record<string, unknown>, header: object = {}): Promise<string> => {
    const { payload } = decodeJwt(await getToken());
    const { current } = server.controlPlane.oauth.signingKeys;
    const key = createPrivateKey({ key: current.privateJwk, format: "jwk" });
    return new SignJWT({ ...payload, ...claims })
      .setProtectedHeader({ alg: "ES256", typ: "at+jwt", kid: current.id, ...header })
      .sign(key);
  };
  const now = Math.floor(Date.now() / 1_000);
  const broken: Record<string, [Record<string, unknown>, object?]> = {
    "with another issuer": [{ iss: "https://evil.example" }],
    "for another audience": [{ aud: "https://evil.example" }],
    "after its end": [{ exp: now - 1 }],
    "without an end": [{ exp: undefined }],
    "before its time": [{ nbf: now + 3_600 }],
    "without a subject": [{ sub: undefined }],
    "of a kind there is not": [{ kind: "operator" }],
    "of another type": [{}, { typ: "JWT" }],
    "under a grant that never was": [{ grant: "0".repeat(64) }],
    "without a grant": [{ grant: undefined }],
    "with an extension that must be understood": [{}, { crit: ["x"], x: 1 }],
  };
  for (const [what, [claims, header]] of Object.entries(broken)) {
    test(what, async () => {
      const token = await sign(claims, header).catch(() => undefined);
      if (token === undefined) assert.equal(what, "with an extension that must be understood");
      else assert.equal(await use(token), 401);
    });
  }

  test("while the same without a change is accepted", async () => {
    assert.equal(await use(await sign({})), 200);
  });

  test("and an ID token is no access token", async () => {
    const token = await sign({ aud: "blaxel" }, { typ: "JWT" });
    assert.equal(await use(token), 401);
  });
});

describe("signing keys", () => {
  test("of the operator's choosing sign from now on, and older tokens stay good", async () => {
    const before = await getToken();
    const rotated = await server.operate("POST", "/v0/oauth/signing-keys/rotate", { body: {} });
    assert.equal(rotated.status, 200);
    assert.equal(rotated.body.length, 2);
    assert.deepEqual(
      rotated.body.map(({ signs }: { signs: boolean }) => signs),
      [true, false],
    );
    const after = await getToken();
    assert.notEqual(decodeJwt(after).header.kid, decodeJwt(before).header.kid);
    assert.equal(decodeJwt(after).header.kid, rotated.body[0].keyId);
    assert.deepEqual([await use(before), await use(after)], [200, 200]);
    const listed = await server.operate("GET", "/v0/oauth/signing-keys");
    assert.equal(listed.body.length, 2);
    assert.equal(listed.text.includes('"d"'), false);
  });

  test("that are compromised are revoked with what they signed", async () => {
    const before = await getToken();
    assert.equal(await use(before), 200);
    await server.operate("POST", "/v0/oauth/signing-keys/rotate", { body: { revoke: true } });
    assert.equal(await use(before), 401);
    assert.equal(await use(await getToken()), 200);
    assert.equal(JSON.parse((await server.call("GET", "/v0/oauth/jwks", { key: null })).text).keys.length, 1);
  });

  test("are no business of anybody's but the operator", async () => {
    assert.equal((await server.call("GET", "/v0/oauth/signing-keys")).status, 404);
    assert.equal((await server.call("POST", "/v0/oauth/signing-keys/rotate", { body: {} })).status, 404);
  });

  test("are stored sealed", async () => {
    const { privateJwk } = server.controlPlane.oauth.signingKeys.current;
    assert.ok(!(await server.stored()).includes(privateJwk.d!));
  });

  test("of another process are found", async () => {
    const { keys, rows } = memoryKeys();
    await keys.maintain();
    const other = memoryKeys(rows).keys;
    await other.maintain();
    assert.equal(rows.length, 1);
    const rotated = await other.rotate({ revoke: false });
    assert.equal(await keys.findPublicKey("unknown"), undefined);
    await keys.maintain(Date.now() + 1);
    assert.equal(keys.current.id, rotated.id);
    assert.equal((await keys.findPublicKey(rotated.id))?.type, "public");
  });

  test("follow each other by themselves: published first, then signing, then verifying, then gone", async () => {
    const { keys, rows } = memoryKeys();
    const start = Date.now();
    await keys.maintain(start);
    const first = keys.current.id;
    await keys.maintain(start + day - 1);
    assert.deepEqual(idsOf(rows), [first]);
    // Its time is over: the next one is published and does not sign yet.
    await keys.maintain(start + day);
    assert.equal(keys.all.length, 2);
    assert.equal(keys.current.id, first);
    const second = idsOf(rows).find((id) => id !== first)!;
    await keys.maintain(start + day + 600_000);
    assert.equal(keys.current.id, second);
    // Tokens of the first live two hours from then on, and clocks get another.
    await keys.maintain(start + day + 600_000 + 3 * hour - 1);
    assert.ok(await keys.findPublicKey(first));
    await keys.maintain(start + day + 600_000 + 3 * hour);
    assert.deepEqual(idsOf(rows), [second]);
    assert.equal(await keys.findPublicKey(first), undefined);
  });
});

const hour = 3_600_000;
const day = 24 * hour;

function idsOf(rows: OauthSigningKeysTable[]): string[] {
  return rows.map(({ id }) => id);
}

function memoryKeys(rows: OauthSigningKeysTable[] = []) {
  const store = {
    list: async () => [...rows].sort((left, right) => (left.active_at < right.active_at ? 1 : -1)),
    insert: async (row: OauthSigningKeysTable) => void rows.push(row),
    remove: async (ids: readonly string[]) => {
      for (const id of ids)
        rows.splice(
          rows.findIndex((row) => row.id === id),
          1,
        );
    },
  };
  const sealKey = new SealKey(Buffer.alloc(32, 7));
  const onChange = (): void => undefined;
  return { rows, keys: new SigningKeys({ store, sealKey, rotationMs: day, accessTokenTtlMs: 2 * hour, onChange }) };
}
