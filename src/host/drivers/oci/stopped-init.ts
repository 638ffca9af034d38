// Tells whether a process is the init of a sandbox and was stopped from outside: nobody inside can stop it.
import { readFileSync } from "node:fs";

export function isStoppedInit(pid: number): boolean {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "latin1");
    // Its number in its own namespace, the last one, is 1.
    return /^State:\tT/m.test(status) && /^NSpid:.*\t1$/m.test(status);
  } catch {
    return false;
  }
}
