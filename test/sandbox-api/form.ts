// Multipart forms for tests.

export type FormPart =
  | readonly [name: string, content: string | Buffer]
  | readonly [name: string, content: Buffer, filename: string];

const boundary = "----form-boundary-of-a-test";
export const formHeaders = { "content-type": `multipart/form-data; boundary=${boundary}` };

export function form(parts: readonly FormPart[]): { headers: Record<string, string>; body: Buffer } {
  const pieces = parts.flatMap(([name, content, filename]) => [
    partHead(name, filename),
    Buffer.from(content),
    Buffer.from("\r\n"),
  ]);
  return { headers: formHeaders, body: Buffer.concat([...pieces, formEnd]) };
}

export function partHead(name: string, filename?: string): Buffer {
  const file = filename === undefined ? "" : `; filename="${filename}"\r\nContent-Type: application/octet-stream`;
  return Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="${name}"${file}\r\n\r\n`);
}

export const formEnd: Buffer = Buffer.from(`--${boundary}--\r\n`);
