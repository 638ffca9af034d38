// Decides whether a process that has failed is run again, when, and what its output says about it.
import type { ProcessEnd } from "../machine.ts";
import type { StreamOffsets } from "./journal-format.ts";
import type { ProcessRecord, RestartState } from "./process-record.ts";

const pauseMs = 1_000;
const pauseMaxMs = 60_000;
/** A run that lasted this long counts as one that had worked. */
const steadyMs = 60_000;

/** After an end that nobody had asked for and that was no success, as often as allowed. */
export function isRunAgain({ restarts, endedBy, deadlineMs }: ProcessRecord, end: ProcessEnd): boolean {
  if (restarts === undefined || endedBy !== undefined || ("code" in end && end.code === 0)) return false;
  if (deadlineMs !== undefined && deadlineMs <= Date.now()) return false;
  return restarts.max < 0 || restarts.count < restarts.max;
}

/** The state of the pause before the next run. `endsLine`: whether the standard output stopped at the end of a line. */
export function nextRun(
  restarts: RestartState,
  end: ProcessEnd,
  { written, endsLine }: { written: StreamOffsets; endsLine: boolean },
): RestartState {
  const nowMs = Date.now();
  const failuresInRow = nowMs - restarts.runStartedAtMs >= steadyMs ? 1 : restarts.failuresInRow + 1;
  const count = restarts.count + 1;
  const what = "code" in end ? `exited with code ${end.code}` : `died of signal ${end.signal}`;
  const limit = restarts.max < 0 ? "" : ` of ${restarts.max}`;
  const marker = `${endsLine ? "" : "\n"}[process ${what}; restart ${count}${limit}]\n`;
  return {
    ...restarts,
    count,
    failuresInRow,
    marker,
    base: { stdout: written.stdout + Buffer.byteLength(marker), stderr: written.stderr },
    dueMs: nowMs + pauseOf(restarts.max, failuresInRow),
  };
}

/** Without a limit the pauses grow: somebody must be spared what never works. */
function pauseOf(max: number, failuresInRow: number): number {
  return max < 0 ? Math.min(pauseMaxMs, pauseMs * 2 ** Math.min(failuresInRow - 1, 16)) : pauseMs;
}
