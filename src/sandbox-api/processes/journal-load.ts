// Finds a journal's files after a restart and how many bytes of each stream they truly hold.
import { readdirSync, readFileSync, rmSync, statSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { type JournalState, type Segment, segmentPath } from "./journal.ts";
import { decodeRecords, decodeSegmentHeader, type StreamOffsets, segmentHeaderBytes } from "./journal-format.ts";

/** Sequence numbers of every process's segments in a directory, ascending. */
export function listSegments(directory: string): Map<string, number[]> {
  const found = new Map<string, number[]>();
  for (const name of readdirSync(directory)) {
    const match = /^([a-z0-9]{1,32})\.(\d{1,15})\.log$/.exec(name);
    if (match === null) continue;
    const sequences = found.get(match[1]!) ?? [];
    sequences.push(Number(match[2]));
    found.set(match[1]!, sequences);
  }
  for (const sequences of found.values()) sequences.sort((a, b) => a - b);
  return found;
}

/** Reads the journal of a process that may still write: a torn last record is cut off, a segment without a header removed. */
export function loadJournal(directory: string, token: string, sequences: readonly number[]): JournalState {
  const segments: Segment[] = [];
  let written: StreamOffsets = { stdout: 0, stderr: 0 };
  let endsLine = true;
  for (const [index, sequence] of sequences.entries()) {
    const path = join(segmentPath(directory, token, sequence));
    const isLast = index === sequences.length - 1;
    const content = readFileSync(path);
    const start = decodeSegmentHeader(content);
    if (start === undefined) {
      rmSync(path, { force: true });
      continue;
    }
    const { pieces, consumedBytes } = decodeRecords(content.subarray(segmentHeaderBytes));
    const bytes = segmentHeaderBytes + consumedBytes;
    if (isLast && bytes < content.length) truncateSync(path, bytes);
    segments.push({ sequence, start, bytes });
    written = { ...start };
    for (const { stream, offset, data } of pieces) {
      written[stream] = offset + data.length;
      if (stream === "stdout") endsLine = data.at(-1) === 10;
    }
  }
  return { segments, written, endsLine };
}

/** The journal of an ended process as its record describes it, as far as its files are still there. */
export function restoreJournal(directory: string, token: string, state: JournalState): JournalState {
  const segments = state.segments.filter(({ sequence }) => {
    return statSync(segmentPath(directory, token, sequence), { throwIfNoEntry: false }) !== undefined;
  });
  return { segments, written: state.written };
}
