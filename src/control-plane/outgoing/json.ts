// Reads JSON that somebody else wrote: its depth and number of values are bounded before anything is built from it.
import { OutgoingError } from "./failure.ts";

const depthMax = 64;
const valuesMax = 200_000;

/** Throws `too_large` for what exceeds the bounds; undefined for what is not JSON. */
export function parseForeignJson(text: string): unknown {
  requireBounds(text);
  try {
    return JSON.parse(text);
  } catch {
    // The error would quote the text.
    return undefined;
  }
}

function requireBounds(text: string): void {
  let depth = 0;
  let values = 0;
  let inString = false;
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (inString) {
      if (code === 0x5c) index++;
      else if (code === 0x22) inString = false;
    } else if (code === 0x22) {
      inString = true;
    } else if (code === 0x5b || code === 0x7b) {
      depth++;
      values++;
    } else if (code === 0x5d || code === 0x7d) {
      depth--;
    } else if (code === 0x2c) {
      values++;
    }
    if (depth > depthMax || values > valuesMax) throw new OutgoingError("too_large", "answered with too many values");
  }
}
