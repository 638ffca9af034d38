// Colours for states, only at a terminal and only when the person has not asked for none.
import { createColors } from "picocolors";
import type { CliContext } from "./context.ts";

export function color({ env, stdout }: CliContext): (status: "ok" | "note" | "problem", text: string) => string {
  const { green, yellow, red } = createColors(stdout.isTTY === true && !env.NO_COLOR && env.TERM !== "dumb");
  const paints = { ok: green, note: yellow, problem: red };
  return (status, text) => text.replace(/^\S+/, (mark) => paints[status](mark));
}
