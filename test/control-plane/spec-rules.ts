// Asks the rules of a sandbox's spec about values, without a server: accepted, refused with what message, or not available.
import assert from "node:assert/strict";
import { compileInput } from "../../src/contract/input.ts";
import { SandboxInput } from "../../src/contract/sandbox.ts";
import { draftSandbox } from "../../src/control-plane/sandboxes/draft.ts";
import { AppError } from "../../src/core/errors.ts";

const limits = { region: "local", memoryDefaultMb: 4096, memoryMaxMb: 16_384, retentionMaxMs: 604_800_000 };
export const read = compileInput(SandboxInput, "body");

/** What is said of a spec: undefined when it is accepted, the code of a missing feature, or the refusal. */
export function answerTo(spec: unknown): string | undefined {
  try {
    draftSandbox(read({ metadata: {}, spec }), limits);
    return undefined;
  } catch (error) {
    assert.ok(error instanceof AppError, String(error));
    assert.equal(error.code, "invalid_request");
    return error.details?.code === "FEATURE_NOT_AVAILABLE" ? "not available" : error.message;
  }
}

/** Every value is well-formed: at most its behaviour is missing. */
export function allows(toSpec: (value: unknown) => unknown, values: readonly unknown[]): void {
  for (const value of values) {
    assert.ok(
      [undefined, "not available"].includes(answerTo(toSpec(value))),
      `${JSON.stringify(value)}: ${answerTo(toSpec(value))}`,
    );
  }
}

export function refuses(toSpec: (value: unknown) => unknown, values: readonly unknown[], message: RegExp): void {
  for (const value of values)
    assert.match(answerTo(toSpec(value)) ?? "accepted", message, JSON.stringify(value)?.slice(0, 200));
}
