// Runs a test sandbox as a program of its own, so that its memory can be measured; prints its port and working directory.
import { TestSandbox } from "./harness.ts";

const sandbox = await TestSandbox.start();
process.stdout.write(`${JSON.stringify({ port: sandbox.port, workingDir: sandbox.workingDir })}\n`);
process.stdin.resume();
process.stdin.once("end", () => {
  sandbox[Symbol.asyncDispose]().then(
    () => process.exit(0),
    () => process.exit(1),
  );
});
