// Requests to the outside against servers that mean harm: where they go, how long they wait and how much they take.
import assert from "node:assert/strict";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { describe, test } from "node:test";
import { gzipSync } from "node:zlib";
import { Outgoing, type OutgoingOptions } from "../../../src/control-plane/outgoing/outgoing.ts";
import { makeCertificate } from "./certificate.ts";
import { json, type Respond, startService } from "./fake-service.ts";

const limits = {
  connectTimeoutMs: 2_000,
  idleTimeoutMs: 300,
  totalTimeoutMs: 1_500,
  responseMaxBytes: 10_000,
  requestsMax: 6,
  redirectsMax: 3,
};
const secretHeaders = { authorization: "Bearer very-secret" };

async function get(url: string, options: OutgoingOptions) {
  await using session = new Outgoing({ limits, ...options }).open(url);
  return await session.send({ method: "GET", url, headers: secretHeaders });
}

/** Asks a service that the operator allows. */
async function ask(respond: Respond, path = "/") {
  await using service = await startService(respond);
  return await get(`${service.origin}${path}`, { allowedHosts: [service.host] });
}

describe("where a request goes", () => {
  test("a name that leads inside is not connected to, whatever it led to before", async () => {
    await using service = await startService((response) => json(response, 200, {}));
    const port = Number(service.host.split(":")[1]);
    const answers = [["8.8.8.8"], ["127.0.0.1"]];
    const outgoing = new Outgoing({
      limits,
      allowedHosts: [],
      findAddresses: async () => (answers.shift() ?? ["127.0.0.1"]).map((address) => ({ address, family: 4 })),
    });
    assert.equal((await outgoing.policy.resolve("rebinding.example", port))[0]?.address, "8.8.8.8");
    const url = `https://rebinding.example:${port}/`;
    for (let time = 0; time < 3; time++) {
      await using session = outgoing.open(url);
      await assert.rejects(session.send({ method: "GET", url, headers: {} }), { reason: "no_public_address" });
    }
    assert.equal(service.connections(), 0);
  });

  test("each connection asks for addresses once, and goes to one of those it was told", async () => {
    await using service = await startService((response) => {
      response.setHeader("connection", "close");
      json(response, 200, {});
    });
    const port = service.host.split(":")[1];
    let questions = 0;
    const outgoing = new Outgoing({
      limits,
      allowedHosts: [`named.example:${port}`],
      findAddresses: async () => {
        questions++;
        return [{ address: "127.0.0.1", family: 4 }];
      },
    });
    const url = `http://named.example:${port}/`;
    await using session = outgoing.open(url);
    for (let time = 1; time <= 2; time++) {
      assert.equal((await session.send({ method: "GET", url, headers: {} })).status, 200);
      assert.deepEqual([questions, service.connections()], [time, time]);
    }
    assert.equal(service.asked[0]?.headers.host, `named.example:${port}`);
  });

  test("a session asks no other origin", async () => {
    await using service = await startService((response) => json(response, 200, {}));
    await using other = await startService((response) => json(response, 200, {}));
    await using session = new Outgoing({ limits, allowedHosts: [service.host, other.host] }).open(service.origin);
    await assert.rejects(session.send({ method: "GET", url: other.origin, headers: secretHeaders }), {
      reason: "redirect",
    });
    assert.equal(other.connections(), 0);
  });

  test("no proxy of the environment is used", async () => {
    await using proxy = await startService((response) => json(response, 200, { proxied: true }));
    await using service = await startService((response) => json(response, 200, { proxied: false }));
    const names = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"];
    const before = names.map((name) => process.env[name]);
    for (const name of names) process.env[name] = proxy.origin;
    try {
      const answer = await get(service.origin, { allowedHosts: [service.host] });
      assert.equal(answer.text, '{"proxied":false}');
    } finally {
      for (const [index, name] of names.entries()) {
        if (before[index] === undefined) delete process.env[name];
        else process.env[name] = before[index];
      }
    }
    assert.equal(proxy.connections(), 0);
  });
});

describe("a redirect", () => {
  const redirect =
    (location: string, status = 302): Respond =>
    (response) =>
      response.writeHead(status, { location }).end("elsewhere");

  test("within the origin is followed, with the credential", async () => {
    await using service = await startService((response, { url }) => {
      if (url.pathname === "/old") return redirect("/new?a=1", 308)(response, { method: "GET", url, headers: {} });
      json(response, 200, { path: url.pathname + url.search });
    });
    const answer = await get(`${service.origin}/old`, { allowedHosts: [service.host] });
    assert.equal(answer.text, '{"path":"/new?a=1"}');
    assert.equal(service.asked[1]?.headers.authorization, secretHeaders.authorization);
  });

  for (const location of [
    "http://169.254.169.254/latest/meta-data/",
    "//169.254.169.254/",
    "http://[::ffff:169.254.169.254]/",
    "http://localhost/",
    "file:///etc/passwd",
    "http://",
    "",
  ]) {
    test(`to "${location}" is not followed`, async () => {
      await using service = await startService((response, { url }) =>
        url.pathname === "/"
          ? redirect(location)(response, { method: "GET", url, headers: {} })
          : json(response, 200, {}),
      );
      const asking = get(`${service.origin}/`, { allowedHosts: [service.host] });
      await assert.rejects(asking, { reason: "redirect" });
    });
  }

  test("to another server is not followed, even to one that is allowed", async () => {
    await using other = await startService((response) => json(response, 200, {}));
    await using service = await startService((response) =>
      redirect(`${other.origin}/`)(response, { method: "GET", url: new URL(other.origin), headers: {} }),
    );
    await assert.rejects(get(service.origin, { allowedHosts: [service.host, other.host] }), { reason: "redirect" });
    assert.equal(other.connections(), 0);
  });

  test("to credentials in a URL is not followed", async () => {
    await using service = await startService((response, { headers }) =>
      redirect(`http://a:b@${headers.host}/next`)(response, { method: "GET", url: new URL("http://x"), headers }),
    );
    await assert.rejects(get(service.origin, { allowedHosts: [service.host] }), { reason: "redirect" });
    assert.equal(service.asked.length, 1);
  });

  test("is followed three times and no more", async () => {
    await using service = await startService((response, { url }) => {
      const step = Number(url.pathname.slice(1));
      if (step === 0) return json(response, 200, {});
      response.writeHead(302, { location: `/${step - 1}` }).end();
    });
    const options = { allowedHosts: [service.host] };
    assert.equal((await get(`${service.origin}/3`, options)).status, 200);
    await assert.rejects(get(`${service.origin}/4`, options), { reason: "redirect" });
    assert.equal(service.asked.length, 8);
  });

  test("with an endless body costs nothing but its connection", async () => {
    await using service = await startService((response, { url }) => {
      if (url.pathname === "/next") return json(response, 200, { arrived: true });
      response.writeHead(302, { location: "/next" });
      writeForever(response);
    });
    assert.equal((await get(service.origin, { allowedHosts: [service.host] })).text, '{"arrived":true}');
  });

  test("of something else than a question is not followed", async () => {
    await using service = await startService((response) => response.writeHead(307, { location: "/next" }).end());
    await using session = new Outgoing({ limits, allowedHosts: [service.host] }).open(service.origin);
    await assert.rejects(session.send({ method: "POST", url: service.origin, headers: {}, body: "{}" }), {
      reason: "redirect",
    });
  });
});

function writeForever(response: Parameters<Respond>[0]): void {
  const piece = Buffer.alloc(65_536, "a");
  const write = (): void => {
    while (!response.destroyed && response.write(piece));
    if (!response.destroyed) response.once("drain", write);
  };
  write();
}

describe("an answer", () => {
  test("of the largest size is taken, of one byte more is not", async () => {
    assert.equal((await ask((response) => response.end("a".repeat(10_000)))).text.length, 10_000);
    await assert.rejects(
      ask((response) => response.end("a".repeat(10_001))),
      { reason: "too_large" },
    );
  });

  test("that does not end is cut at the limit", async () => {
    await assert.rejects(ask(writeForever), { reason: "too_large" });
  });

  test("that announces more than it may is cut as well", async () => {
    await assert.rejects(
      ask((response) => {
        response.writeHead(200, { "content-length": "99999999999" });
        response.write("a".repeat(20_000));
      }),
      { reason: "too_large" },
    );
  });

  test("is asked for without an encoding, and refused in one", async () => {
    await using service = await startService((response) => {
      response.writeHead(200, { "content-encoding": "gzip" });
      response.end(gzipSync(Buffer.alloc(50_000_000)));
    });
    await assert.rejects(get(service.origin, { allowedHosts: [service.host] }), { reason: "encoding" });
    assert.equal(service.asked[0]?.headers["accept-encoding"], "identity");
  });

  test("whose headers do not end is given up", async () => {
    await assert.rejects(
      ask((response) => {
        for (let index = 0; index < 100; index++) response.setHeader(`x-${index}`, "a".repeat(1_000));
        response.end();
      }),
      { reason: "unreachable" },
    );
  });

  test("that does not begin is given up", async () => {
    await assert.rejects(
      ask(() => undefined),
      { reason: "timeout" },
    );
  });

  test("that stops half-way is given up", async () => {
    await assert.rejects(
      ask((response) => void response.write("{")),
      { reason: "timeout" },
    );
  });

  test("that drips is given up when the whole time is over", async () => {
    await assert.rejects(
      ask((response) => {
        const timer = setInterval(() => response.write(" "), 50);
        response.on("close", () => clearInterval(timer));
      }),
      { reason: "timeout" },
    );
  });

  test("that breaks off is no answer", async () => {
    await assert.rejects(
      ask((response) => {
        response.writeHead(200, { "content-length": "100" });
        response.write("{}");
        setImmediate(() => response.destroy());
      }),
      { reason: "unreachable" },
    );
  });

  test("of something that does not speak HTTP is no answer", async () => {
    const server = createServer((socket) => {
      socket.on("error", () => undefined).resume();
      socket.end("SSH-2.0-OpenSSH_9.2\r\n");
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    try {
      await assert.rejects(get(`http://${host}/`, { allowedHosts: [host] }), { reason: "unreachable" });
    } finally {
      await new Promise((resolve) => server.close(resolve));
    }
    await assert.rejects(get(`http://${host}/`, { allowedHosts: [host] }), { reason: "unreachable" });
  });

  test("comes as often as one exchange may need, and no more", async () => {
    await using service = await startService((response) => json(response, 200, {}));
    await using session = new Outgoing({ limits, allowedHosts: [service.host] }).open(service.origin);
    const send = () => session.send({ method: "GET", url: service.origin, headers: {} });
    for (let time = 0; time < limits.requestsMax; time++) await send();
    await assert.rejects(send(), { reason: "too_many" });
    assert.equal(service.connections(), 1);
  });
});

describe("over TLS", () => {
  const certificate = makeCertificate("DNS:service.example");
  const findAddresses = async () => [{ address: "127.0.0.1", family: 4 }];
  const askTls = async (host: string, ca: string | undefined) => {
    await using service = await startService((response) => json(response, 200, { tls: true }), certificate);
    const named = `${host}:${service.host.split(":")[1]}`;
    return await get(`https://${named}/`, { allowedHosts: [named], findAddresses, ...(ca !== undefined && { ca }) });
  };

  test("a server that proves its name is asked", async () => {
    assert.equal((await askTls("service.example", certificate.cert)).text, '{"tls":true}');
  });

  test("a certificate of another name is refused", async () => {
    await assert.rejects(askTls("other.example", certificate.cert), { reason: "tls" });
  });

  test("a certificate that nobody vouches for is refused, also when the environment says otherwise", async () => {
    const before = process.env.NODE_TLS_REJECT_UNAUTHORIZED;
    process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";
    try {
      await assert.rejects(askTls("service.example", undefined), { reason: "tls" });
    } finally {
      if (before === undefined) delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
      else process.env.NODE_TLS_REJECT_UNAUTHORIZED = before;
    }
  });
});
