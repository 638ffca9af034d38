// Reads a pax extended header: the few records that change what an entry is, and refuses those that would make it another thing.
import { showName, TarRefusal } from "./refusal.ts";
import { decodeText } from "./text.ts";

export type PaxRecords = { path?: string; sizeBytes?: number };

const recordsMax = 64;

/** `scope` is `global` for records that are meant for all entries after them. */
export function readPax(body: Buffer, scope: "next entry" | "global", where: string): PaxRecords {
  const records: PaxRecords = {};
  let count = 0;
  for (let at = 0; at < body.length; ) {
    const space = body.indexOf(0x20, at);
    const digits = space < 0 ? "" : body.toString("latin1", at, Math.min(space, at + 8));
    const end = /^[1-9]\d{0,6}$/.test(digits) ? at + Number(digits) : Number.NaN;
    const equals = body.indexOf(0x3d, space);
    if (!(end <= body.length) || body[end - 1] !== 0x0a || equals < 0 || equals >= end || ++count > recordsMax) {
      throw new TarRefusal(`the pax header of ${where} is malformed`);
    }
    // Those that mean something are ASCII.
    const key = body.toString("latin1", space + 1, equals);
    readRecord(records, key, body.subarray(equals + 1, end - 1), scope, where);
    at = end;
  }
  return records;
}

function readRecord(records: PaxRecords, key: string, value: Buffer, scope: string, where: string): void {
  if (key.startsWith("GNU.sparse")) throw new TarRefusal(`${where} is a sparse file, which templates cannot have`);
  const changesEntry = key === "path" || key === "size" || key === "linkpath";
  if (changesEntry && scope === "global") throw new TarRefusal(`a global pax header sets ${key}`);
  // Readers disagree on which of two counts.
  if ((key === "path" && records.path !== undefined) || (key === "size" && records.sizeBytes !== undefined)) {
    throw new TarRefusal(`the pax header of ${where} sets ${key} twice`);
  }
  if (key === "path") {
    records.path = decodeText(value, `the pax path of ${where}`);
  } else if (key === "size") {
    const text = value.toString("latin1");
    if (!/^\d{1,15}$/.test(text)) throw new TarRefusal(`the pax size of ${where} is not a number`);
    records.sizeBytes = Number(text);
  } else if (key === "hdrcharset" && value.toString("latin1") !== "ISO-IR 10646 2000 UTF-8") {
    throw new TarRefusal(`the pax header of ${where} is not in UTF-8`);
  } else if (key.startsWith("SCHILY.real") || key === "SCHILY.filetype") {
    throw new TarRefusal(`the pax header of ${where} sets ${showName(key)}, which templates cannot have`);
  }
}
