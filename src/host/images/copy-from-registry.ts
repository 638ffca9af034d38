// Copies an image from its registry into a layout on disk with skopeo, in a jail whose only way out is the gate.
import { closeSync, openSync } from "node:fs";
import { mkdir, symlink } from "node:fs/promises";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { AppError } from "../../core/errors.ts";
import { runCommand } from "../../core/run-command.ts";
import { jailArguments, jailEnvironment } from "./jail.ts";
import type { ImageReference } from "./reference.ts";
import { type GateRefusal, openRegistryGate } from "./registry-gate.ts";

/** `refused`: the registry or the platform says no. `unreachable`: trying again later may help. */
export class PullFailure extends Error {
  override readonly name = "PullFailure";
  readonly kind: "refused" | "unreachable";

  constructor(kind: "refused" | "unreachable", message: string, cause?: unknown) {
    super(message, { cause });
    this.kind = kind;
  }
}

export type CopyOptions = {
  reference: ImageReference;
  /** Holds `blobs` and the work directories: one directory, because files move between them by rename. */
  pullsDir: string;
  /** Below `pullsDir`, empty. Receives the layout. */
  workDir: string;
  insecureRegistries: readonly string[];
  receivedMaxBytes: number;
  timeoutMs: number;
  /** Further attempts after a failure of the network. */
  retries: number;
  signal: AbortSignal;
};

type ForwarderTask = {
  gateSocketPath: string;
  proxyPort: number;
  direct: { port: number; target: string }[];
  command: string[];
};

const forwarder = fileURLToPath(new URL("registry-forwarder.ts", import.meta.url));

export async function copyFromRegistry(options: CopyOptions): Promise<void> {
  const { reference, workDir, pullsDir, signal, timeoutMs, insecureRegistries, receivedMaxBytes } = options;
  if (isLoopback(reference.registry.split(":")[0]!) && !insecureRegistries.includes(reference.registry)) {
    throw new PullFailure("refused", refusalMessages.inner_address);
  }
  await mkdir(join(workDir, "layout"));
  await symlink("../../../blobs", join(workDir, "layout/blobs"));
  // A socket's path is limited to 107 bytes; through the descriptor it is short wherever the image directory lies.
  const workDirectory = openSync(workDir, "r");
  try {
    await using gate = await openRegistryGate({
      socketPath: `/proc/self/fd/${workDirectory}/gate.sock`,
      insecureRegistries,
      receivedMaxBytes,
    });
    const task = forwarderTask(options);
    const jail = jailArguments({
      writable: [{ from: pullsDir, to: "/pulls" }],
      readable: [
        { from: process.execPath, to: "/jail/node" },
        { from: forwarder, to: "/jail/registry-forwarder.ts" },
      ],
      capabilities: ["CAP_NET_BIND_SERVICE"],
      command: ["/jail/node", "/jail/registry-forwarder.ts", JSON.stringify(task)],
    });
    const proxy = `http://127.0.0.1:${task.proxyPort}`;
    const env = { ...jailEnvironment, HTTP_PROXY: proxy, HTTPS_PROXY: proxy, NODE_NO_WARNINGS: "1" };
    try {
      await runCommand("bwrap", jail, { env, timeoutMs, signal });
    } catch (error) {
      throw describeFailure(error, gate.refusal, signal);
    }
  } finally {
    closeSync(workDirectory);
  }
}

/** What the forwarder in the jail is to do; see there. */
function forwarderTask({ reference, insecureRegistries, workDir, retries }: CopyOptions): ForwarderTask {
  const inside = `/pulls/work/${basename(workDir)}`;
  const insecure = insecureRegistries.includes(reference.registry);
  const options = ["--quiet", "--src-no-creds", `--src-tls-verify=${!insecure}`, `--retry-times=${retries}`];
  // umoci reads gzip and plain layers only.
  options.push("--dest-compress-format=gzip");
  const command = ["skopeo", "copy", ...options, `docker://${reference.text}`, `oci:${inside}/layout:image`];
  const [host = "", port = ""] = reference.registry.split(":");
  const direct = insecure && isLoopback(host) ? [{ port: Number(port), target: reference.registry }] : [];
  const proxyPort = direct[0]?.port === 3128 ? 3129 : 3128;
  return { gateSocketPath: `${inside}/gate.sock`, proxyPort, direct, command };
}

/** Hosts that programs never use a proxy for. */
function isLoopback(host: string): boolean {
  return host === "localhost" || host.startsWith("127.");
}

const refusalMessages: Record<GateRefusal, string> = {
  inner_address: "Its registry is not on the public internet and is not listed by the operator.",
  plain_http: "Its registry wants plain HTTP and is not listed by the operator.",
  too_large: "It is larger than this platform accepts.",
};

/** Sorts what the program said. Its words may hold addresses of this machine, so they go to the log and not to the caller. */
function describeFailure(error: unknown, refusal: GateRefusal | undefined, signal: AbortSignal): Error {
  if (signal.aborted) return new PullFailure("unreachable", "Pulling it took too long or was given up.", error);
  if (refusal !== undefined) return new PullFailure("refused", refusalMessages[refusal], error);
  const words = /level=fatal msg=(.*)/.exec(error instanceof AppError ? error.message : "")?.[1] ?? "";
  if (/manifest unknown|name unknown|not found|name invalid|status code 404/i.test(words)) {
    return new PullFailure("refused", "Its registry does not know it.", error);
  }
  if (/unauthorized|authentication required|access to the resource is denied|denied:|status code 40[13]/i.test(words)) {
    return new PullFailure("refused", "Its registry does not give it out without credentials.", error);
  }
  if (/no image found in manifest list|no image found in image index/i.test(words)) {
    return new PullFailure("refused", "It has no variant for this machine's architecture.", error);
  }
  return new PullFailure("unreachable", "Its registry could not be reached or did not answer properly.", error);
}
