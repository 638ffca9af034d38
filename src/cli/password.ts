// Reads a password: asked for twice at a terminal, else the first line of standard input. Never an argument, which others could see.
import { password as ask, isCancel } from "@clack/prompts";
import type { CliContext } from "./context.ts";
import { usageFailure } from "./failure.ts";

const lineMaxBytes = 4_096;

export async function readPassword({ stdin, stderr }: CliContext): Promise<string> {
  if (stdin.isTTY !== true) return readLine(stdin);
  const options = { input: stdin, output: stderr };
  const first = await ask({ message: "New password", ...options });
  if (isCancel(first)) throw usageFailure("No password was given.");
  const second = await ask({ message: "The same again", ...options });
  if (first !== second) throw usageFailure("The two passwords differ.");
  return first;
}

async function readLine(stdin: CliContext["stdin"]): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of stdin) {
    const bytes = Buffer.from(chunk as Uint8Array | string);
    chunks.push(bytes);
    size += bytes.length;
    if (size > lineMaxBytes || bytes.includes(10)) break;
  }
  const [line = ""] = Buffer.concat(chunks).toString("utf8").split(/\r?\n/, 1);
  if (size > lineMaxBytes || line === "") throw usageFailure("Give the password as the first line of standard input.");
  return line;
}
