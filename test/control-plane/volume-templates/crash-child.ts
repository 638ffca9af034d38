// A control plane with volume templates in a process of its own, to be killed at any moment.
// Usage: node crash-child.ts DATA_DIR API_KEY S3_URL, the last two empty at the first start and for a local directory.
import { startServer } from "../harness.ts";
import { bucket } from "./s3-server.ts";

const [, , dataDir = "", apiKey = "", s3Url = ""] = process.argv;
const { name, ...key } = bucket;
const server = await startServer({
  dataDir,
  ...(apiKey !== "" && { apiKey }),
  volumeTemplates: {
    collectIntervalMs: 5,
    sweepIntervalMs: 20,
    ...(s3Url !== "" && { bucket: { endpoint: s3Url, bucket: name, ...key } }),
  },
});
console.log(JSON.stringify({ url: server.url, apiKey: server.apiKey }));
