// The baseline of the GET benchmark: node:http, one route, one answer, nothing else.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

const answer = JSON.parse(process.argv[2]!) as unknown;
const server = createServer((request, response) => {
  if (!/^\/v0\/sandboxes\/[a-z0-9-]+$/.test(request.url ?? "")) {
    response.writeHead(404).end();
    return;
  }
  const body = JSON.stringify(answer);
  response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(body) }).end(body);
});
// Measured in turns: a connection waits longer for its next one than servers wait by themselves.
server.keepAliveTimeout = 0;
server.listen(0, "127.0.0.1", () => {
  process.send?.({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
});
process.once("disconnect", () => process.exit(0));
