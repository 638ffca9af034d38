// A host that dies: takes a guest's output into files until it has kept so many bytes of its own, or to the end. Arguments: socket, directory, bytes; prints `ready`, then `ended` and the end.
import { closeSync, fstatSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { createLogger } from "../../src/core/log.ts";
import { openGuest } from "../../src/host/guest/guest.ts";

const [socketPath, dir, bytes] = process.argv.slice(2) as [string, string, string];
let left = Number(bytes);
const connection = await openGuest({
  socketPath,
  log: createLogger("silent"),
  onLost: (reason) => {
    console.log(`lost ${reason}`);
    process.exit(1);
  },
});
await connection.attach({
  onConnected: async () => undefined,
  sink: {
    async output(_token, stream, offset, chunk) {
      const file = openSync(join(dir, stream), "a");
      const have = fstatSync(file).size;
      // Never a gap: what comes begins at or before the end of what is kept.
      if (offset > have) console.log(`gap ${stream} ${have} ${offset}`);
      else if (offset + chunk.length > have) left -= writeSync(file, chunk.subarray(have - offset));
      closeSync(file);
      // Kept, and not yet acknowledged: the successor is told of these bytes again.
      if (left <= 0) process.kill(process.pid, "SIGKILL");
    },
    async exit(_token, end) {
      console.log(`ended ${JSON.stringify(end)}`);
    },
  },
});
console.log("ready");
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
