// Texts of an archive: UTF-8 without control characters, or the archive is refused.
import { TarRefusal } from "./refusal.ts";

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export function decodeText(bytes: Uint8Array, what: string): string {
  let text: string;
  try {
    text = decoder.decode(bytes);
  } catch {
    throw new TarRefusal(`${what} is not UTF-8`);
  }
  if (/[\u0000-\u001f\u007f]/.test(text)) throw new TarRefusal(`${what} has control characters`);
  return text;
}
