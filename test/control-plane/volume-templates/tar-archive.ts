// Writes tar archives byte by byte, proper and hostile ones, for the tests of what checks them.

export type Entry = {
  name: string;
  type?: string;
  content?: string | Buffer;
  /** What the header says instead of the content's length. */
  sizeBytes?: number;
  linkName?: string;
  prefix?: string;
  magic?: string;
  /** Writes over the finished header; the checksum is made afterwards. */
  edit?: (header: Buffer) => void;
  /** Added to the right checksum. */
  checksumOff?: number;
};

export const end = Buffer.alloc(1_024);

export function entry(given: Entry): Buffer {
  const { name, type = "0", content = "", linkName = "", prefix = "", magic = "ustar\x0000" } = given;
  const body = Buffer.from(content);
  const header = Buffer.alloc(512);
  header.write(name, 0, 100);
  header.write("0000644\0", 100);
  header.write("0000000\0", 108);
  header.write("0000000\0", 116);
  header.write(`${(given.sizeBytes ?? body.length).toString(8).padStart(11, "0")}\0`, 124);
  header.write("00000000000\0", 136);
  header.write(type, 156, "latin1");
  header.write(linkName, 157, 100);
  header.write(magic, 257, "latin1");
  header.write(prefix, 345, 155);
  given.edit?.(header);
  header.fill(" ", 148, 156);
  const sum = header.reduce((total, byte) => total + byte, given.checksumOff ?? 0);
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return Buffer.concat([header, body, Buffer.alloc((512 - (body.length % 512)) % 512)]);
}

export function archive(...entries: (Entry | Buffer)[]): Buffer {
  return Buffer.concat([...entries.map((each) => (Buffer.isBuffer(each) ? each : entry(each))), end]);
}

export function pax(records: Record<string, string>, type: "x" | "g" = "x"): Buffer {
  return entry({ name: "pax", type, content: paxBody(records) });
}

export function paxBody(records: Record<string, string>): string {
  return Object.entries(records)
    .map(([key, value]) => {
      const rest = Buffer.byteLength(` ${key}=${value}\n`);
      let length = rest + 1;
      while (String(length).length + rest !== length) length = String(length).length + rest;
      return `${length} ${key}=${value}\n`;
    })
    .join("");
}
