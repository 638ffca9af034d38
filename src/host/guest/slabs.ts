// Memory that much output is gathered in, used again: what is taken afresh for every piece costs the collector more than the copying.

/** Holds the output of any frame. */
export const slabBytes = 64 * 1024;
/** For what comes while more waits already. */
export const largeSlabBytes = 256 * 1024;
/** Unused memory that is kept, of all guests together. */
const sparesMaxBytes = 8 * 1024 * 1024;

const spares = new Map<number, Buffer[]>([
  [slabBytes, []],
  [largeSlabBytes, []],
]);
let sparesBytes = 0;

export function takeSlab(bytes: typeof slabBytes | typeof largeSlabBytes): Buffer {
  const spare = spares.get(bytes)!.pop();
  if (spare === undefined) return Buffer.allocUnsafeSlow(bytes);
  sparesBytes -= bytes;
  return spare;
}

/** Nobody may look at it any more. Memory that is no slab is left to the collector. */
export function giveSlab(slab: Buffer): void {
  const alike = spares.get(slab.length);
  if (alike === undefined || sparesBytes + slab.length > sparesMaxBytes) return;
  alike.push(slab);
  sparesBytes += slab.length;
}
