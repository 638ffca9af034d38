// A frame is composed right wherever its buffer has to grow.
import assert from "node:assert/strict";
import { test } from "node:test";
import { FrameWriter } from "../../src/host/guest/frames.ts";
import { frameHeaderBytes } from "../../src/host/guest/protocol.ts";

const fields: [name: string, write: (writer: FrameWriter) => FrameWriter, bytes: number[]][] = [
  ["u8", (writer) => writer.u8(0xa1), [0xa1]],
  ["u16", (writer) => writer.u16(0xa1b2), [0xb2, 0xa1]],
  ["u32", (writer) => writer.u32(0xa1b2c3d4), [0xd4, 0xc3, 0xb2, 0xa1]],
  ["u64", (writer) => writer.u64(1n), [1, 0, 0, 0, 0, 0, 0, 0]],
  ["text", (writer) => writer.text("ab"), [2, 0, 0, 0, 97, 98, 0]],
];

for (const [name, write, bytes] of fields) {
  test(`${name} is whole at every place of the frame`, () => {
    for (let before = 0; before < 600; before += 1) {
      const writer = new FrameWriter();
      for (let count = 0; count < before; count += 1) writer.u8(count & 0xff);
      const frame = write(writer).frame(1, 2);
      assert.deepEqual([...frame.subarray(frameHeaderBytes + before)], bytes);
      assert.equal(
        frame[frameHeaderBytes + before - 1],
        before === 0 ? frame[frameHeaderBytes - 1] : (before - 1) & 0xff,
      );
    }
  });
}
