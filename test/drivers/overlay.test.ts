// The overlay file system is loaded when the machine has it as a module.
import assert from "node:assert/strict";
import { it } from "node:test";
import { hasOverlay } from "../../src/host/drivers/oci/overlay.ts";

const without = "nodev\tsysfs\nnodev\tnooverlay\n\text4\n";
const withIt = `${without}nodev\toverlay\n`;

for (const { name, before, after, loads, expected } of [
  { name: "found where it is there, and not loaded again", before: withIt, after: withIt, loads: 0, expected: true },
  { name: "loaded where it is not", before: without, after: withIt, loads: 1, expected: true },
  { name: "missed where loading it fails", before: without, after: without, loads: 1, expected: false },
]) {
  it(`overlay is ${name}`, async () => {
    let loaded = 0;
    const load = async (): Promise<void> => {
      loaded++;
      if (!after.includes("\toverlay\n")) throw new Error("not found");
    };
    assert.equal(await hasOverlay({ read: () => (loaded > 0 ? after : before), load }), expected);
    assert.equal(loaded, loads);
  });
}
