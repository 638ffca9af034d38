// Serves a test sandbox as a program of its own until it is killed; its arguments are a directory, the socket of a guest, and options.
import { type ServeOptions, TestSandbox } from "./harness.ts";

const [directory, socketPath, options] = process.argv.slice(2) as [string, string, string];
const sandbox = await TestSandbox.serve(directory, socketPath, JSON.parse(options) as ServeOptions);
process.stdout.write(`${JSON.stringify({ port: sandbox.port })}\n`);
// Whoever started it has gone, however that went: nobody else would end it.
process.stdin.resume().once("end", () => process.exit(1));
