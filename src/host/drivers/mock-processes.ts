// The processes of a mock instance: an init and its descendants, found by walking parents, stopped and ended by signals.
import { readdirSync, readFileSync } from "node:fs";
import { waitUntil } from "./wait-until.ts";

export type InitProcess = {
  pid: number;
  /** When it started, in clock ticks: a number that is used again later belongs to somebody else. */
  startedAt: string;
};

export type ProcessState = { pid: number; parent: number; state: string; startedAt: string; residentPages: number };

const signalTimeoutMs = 5_000;
const stoppedStates = "TtZX";

/** Undefined when there is no such process, or only what is left of one that has ended. */
export function readProcess(pid: number): ProcessState | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "latin1");
    // The program's name, in parentheses, may contain anything.
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    const [state, parent] = fields;
    if (state === "Z" || state === "X") return undefined;
    return { pid, parent: Number(parent), state: state!, startedAt: fields[19]!, residentPages: Number(fields[21]) };
  } catch {
    return undefined;
  }
}

export function isAlive(init: InitProcess): boolean {
  return readProcess(init.pid)?.startedAt === init.startedAt;
}

/** The init and everything below it; orphans are below it too, because it adopts them. */
export function readTree(init: InitProcess): ProcessState[] {
  const root = readProcess(init.pid);
  if (root?.startedAt !== init.startedAt) return [];
  const byParent = new Map<number, ProcessState[]>();
  for (const name of readdirSync("/proc")) {
    const found = /^\d+$/.test(name) ? readProcess(Number(name)) : undefined;
    if (found === undefined) continue;
    const siblings = byParent.get(found.parent);
    if (siblings === undefined) byParent.set(found.parent, [found]);
    else siblings.push(found);
  }
  const tree = [root];
  for (let next = 0; next < tree.length; next++) tree.push(...(byParent.get(tree[next]!.pid) ?? []));
  return tree;
}

/** Those that go on. Who waits for a child to exec, by vfork, stops when that goes on: it runs as little as the child. */
export function runningOf(tree: readonly ProcessState[]): ProcessState[] {
  const stopped = new Set(tree.filter(({ state }) => stoppedStates.includes(state)));
  const stoppedParents = new Set([...stopped].map(({ parent }) => parent));
  return tree.filter((one) => !stopped.has(one) && !(one.state === "D" && stoppedParents.has(one.pid)));
}

/** Whether every process has stopped before the deadline and the abort; one that is being born is met in the next round. */
export function stopAll(init: InitProcess, signal?: AbortSignal): Promise<boolean> {
  let rounds = 0;
  const check = (): boolean => {
    const running = runningOf(readTree(init));
    for (const { pid } of running) send(pid, "SIGSTOP");
    rounds = running.length === 0 ? rounds + 1 : 0;
    return rounds >= 2;
  };
  return waitUntil(check, { timeoutMs: signalTimeoutMs, signal });
}

export function continueAll(init: InitProcess): void {
  for (const { pid } of readTree(init)) send(pid, "SIGCONT");
}

/** Stopped first, so that none escapes by making another; the init goes last, because it holds the tree together. */
export async function killAll(init: InitProcess): Promise<boolean> {
  await stopAll(init);
  const tree = readTree(init).reverse();
  for (const { pid } of tree) send(pid, "SIGKILL");
  return waitUntil(() => tree.every(({ pid, startedAt }) => !isAlive({ pid, startedAt })), {
    timeoutMs: signalTimeoutMs,
  });
}

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
