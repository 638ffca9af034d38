// A control plane in a process of its own that changes its sealing key again and again, to be killed at any moment.
// Usage: node rotation-child.ts DATA_DIR API_KEY
import { startServer, until } from "../control-plane/harness.ts";

const [, , dataDir = "", apiKey = ""] = process.argv;
const server = await startServer({ dataDir, apiKey, config: { sealKeySettleMs: 1 } });
console.log("ready");
for (let count = 0; count < 1_000; count += 1) {
  const name = `child-${process.pid}-${count}`;
  await server.create({ name, spec: { runtime: { envs: [{ name: "TOKEN", value: `value-${name}`, secret: true }] } } });
  await server.operate("POST", "/v0/seal-key/rotation");
  await until("the rotation has ended", async () => {
    const { rotation } = (await server.operate("GET", "/v0/seal-key")).body;
    return rotation.phase === "done" ? true : undefined;
  });
}
