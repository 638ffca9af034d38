// Writes tar archives entry by entry, including entries that no honest program would write.
export type TarEntry = {
  path: string;
  type?: "file" | "hardlink" | "symlink" | "character" | "block" | "directory" | "fifo";
  content?: string | Buffer;
  linkTo?: string;
  mode?: number;
  uid?: number;
  gid?: number;
  device?: { major: number; minor: number };
  /** Extended attributes and other pax records that go before the entry. */
  pax?: Record<string, string>;
  /** Says this size in the header, whatever follows. */
  claimedSize?: number;
};

const typeFlags = { file: "0", hardlink: "1", symlink: "2", character: "3", block: "4", directory: "5", fifo: "6" };

export function tar(entries: readonly TarEntry[]): Buffer {
  return Buffer.concat([...entries.flatMap(entryBlocks), Buffer.alloc(1024)]);
}

function entryBlocks(entry: TarEntry): Buffer[] {
  const content = Buffer.from(entry.content ?? "");
  const size = entry.claimedSize ?? content.length;
  const blocks = [header(entry, typeFlags[entry.type ?? "file"], size), padded(content)];
  if (entry.pax === undefined) return blocks;
  const records = Buffer.from(Object.entries(entry.pax).map(paxRecord).join(""));
  return [header({ path: "pax" }, "x", records.length), padded(records), ...blocks];
}

function paxRecord([key, value]: [string, string]): string {
  const rest = ` ${key}=${value}\n`;
  let length = rest.length + 1;
  while (String(length).length + rest.length !== length) length += 1;
  return `${length}${rest}`;
}

function padded(content: Buffer): Buffer {
  return Buffer.concat([content, Buffer.alloc((512 - (content.length % 512)) % 512)]);
}

function header(entry: TarEntry, flag: string, size: number): Buffer {
  const block = Buffer.alloc(512);
  const octal = (value: number, width: number): string => `${value.toString(8).padStart(width - 1, "0")}\0`;
  block.write(entry.path, 0, 100);
  block.write(octal(entry.mode ?? (entry.type === "directory" ? 0o755 : 0o644), 8), 100);
  block.write(octal(entry.uid ?? 0, 8), 108);
  block.write(octal(entry.gid ?? 0, 8), 116);
  block.write(octal(size, 12), 124);
  block.write(octal(0, 12), 136);
  block.write("        ", 148);
  block.write(flag, 156);
  block.write(entry.linkTo ?? "", 157, 100);
  block.write("ustar\x0000", 257, "latin1");
  block.write(octal(entry.device?.major ?? 0, 8), 329);
  block.write(octal(entry.device?.minor ?? 0, 8), 337);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return block;
}
