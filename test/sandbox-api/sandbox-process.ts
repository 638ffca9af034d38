// Runs a test sandbox as a program of its own, so that it can be measured and killed; prints where it is. With a directory and the
// socket of a guest as arguments it serves those.
import { TestSandbox } from "./harness.ts";

const [directory, socketPath] = process.argv.slice(2);
const isOwn = directory === undefined || socketPath === undefined;
const sandbox = isOwn ? await TestSandbox.start() : await TestSandbox.serve(directory, socketPath);
process.stdout.write(`${JSON.stringify({ port: sandbox.port, workingDir: sandbox.workingDir })}\n`);
process.stdin.resume();
process.stdin.once("end", () => {
  sandbox[Symbol.asyncDispose]().then(
    () => process.exit(0),
    () => process.exit(1),
  );
});
