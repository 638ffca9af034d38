// A host that is killed: takes a guest's output into files until then. Arguments: socket, directory; prints `ready`, then `ended` and the end.
import { closeSync, fstatSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { createLogger } from "../../src/core/log.ts";
import { openGuest } from "../../src/host/guest/guest.ts";

const [socketPath, dir] = process.argv.slice(2) as [string, string];
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
      else if (offset + chunk.length > have) writeSync(file, chunk.subarray(have - offset));
      closeSync(file);
    },
    async exit(_token, end) {
      console.log(`ended ${JSON.stringify(end)}`);
    },
  },
});
console.log("ready");
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
