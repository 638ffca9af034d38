// What tests of updates ask of a server: a sandbox replaced whole, read again, and which instance it has.
import type { Answer, Server } from "./harness.ts";

export type Json = Record<string, unknown>;

export function put(server: Server, name: string, body: unknown): Promise<Answer> {
  return server.call("PUT", `/v0/sandboxes/${name}`, { body });
}

export async function get(server: Server, name: string): Promise<Answer["body"]> {
  return (await server.call("GET", `/v0/sandboxes/${name}`)).body;
}

export async function instanceOf(server: Server, name: string): Promise<string | undefined> {
  return (await server.controlPlane.directory.findRoute("main", name))?.instanceId;
}

/** The whole object as it was answered, with the change in its spec's runtime. */
export function withRuntime(sandbox: Answer["body"], runtime: Json): Json {
  return { ...sandbox, spec: { ...sandbox.spec, runtime: { ...sandbox.spec.runtime, ...runtime } } };
}
