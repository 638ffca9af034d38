// A guest with a connection that has taken over its processes, and a recorder of what they write and how they end.
import type { GuestConnection } from "../../src/host/guest/guest.ts";
import { Recorder } from "./recorder.ts";
import { type RunningGuest, startGuest } from "./start-guest.ts";

export type AttachedGuest = AsyncDisposable & { guest: RunningGuest; connection: GuestConnection; recorder: Recorder };

export async function startAttached(): Promise<AttachedGuest> {
  const guest = await startGuest();
  const connection = await guest.open();
  const recorder = new Recorder();
  await connection.attach(recorder.attachment);
  return {
    guest,
    connection,
    recorder,
    async [Symbol.asyncDispose]() {
      await connection[Symbol.asyncDispose]();
      await guest[Symbol.asyncDispose]();
    },
  };
}
