// Arguments reach the program in the sandbox as they were given, whatever they contain.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import fc from "fast-check";
import { quoteArguments } from "../../src/cli/process/quote.ts";

test("a shell hands on exactly the arguments that were quoted", () => {
  const argument = fc.oneof(
    fc.string({ unit: "binary" }).filter((text) => !text.includes("\0") && text.isWellFormed()),
    fc.constantFrom(
      "",
      "'",
      "a'b''c",
      "$HOME",
      "`id`",
      "$(id)",
      "*",
      "~",
      "a b",
      "\n",
      "\\",
      "-n",
      "a=b",
      "#x",
      "!",
      '"',
    ),
  );
  fc.assert(
    fc.property(fc.array(argument, { minLength: 1, maxLength: 6 }), (args) => {
      const seen = execFileSync("sh", ["-c", quoteArguments(["printf", "%s\\0", ...args])], { encoding: "utf8" });
      assert.deepEqual(seen.split("\0").slice(0, -1), args);
    }),
    { numRuns: 60 },
  );
});

const commands: [string[], string][] = [
  [["python3", "-c", "print(1)"], "python3 -c 'print(1)'"],
  [["A=1", "b"], "'A=1' b"],
  [["time", "ls"], "'time' ls"],
  [["env", "time"], "env time"],
  [["/usr/bin/true"], "/usr/bin/true"],
];

for (const [args, command] of commands) {
  test(`${JSON.stringify(args)} is sent as ${command}`, () => assert.equal(quoteArguments(args), command));
}
