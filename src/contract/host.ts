// The private interface between the control plane, the edge and a host. In one process it is called directly.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { Timing } from "../core/timing.ts";

export type InstanceRequest = {
  /** `[a-z0-9]{16}`, chosen by the control plane and recorded before the host is asked: repeating the request is safe. */
  instanceId: string;
  workspace: string;
  sandboxName: string;
  /** Image name as the caller gave it. Unknown: `invalid_request` with `details.code` INVALID_IMAGE. */
  image: string;
  memoryMb: number;
  environment: Record<string, string>;
};

export type InfrastructureError = { code: string; fatal: boolean; instance: string; message: string; time: string };

/** An image on this host, under one of its names. */
export type HostImage = {
  /** Complete, as in `blaxel/base-image:latest` or `docker.io/library/alpine:3`. */
  name: string;
  /** `platform`: built here, for everybody. `pulled`: fetched from a registry because a sandbox asked for it. */
  kind: "platform" | "pulled";
  description?: string;
  /** ISO 8601: when it was built or last fetched. */
  updatedAt: string;
  /** What it takes on disk; absent until it has been measured. */
  sizeBytes?: number;
};

/** What a host knows of an instance right now (spec 2.1 `state`, `lastUsedAt`, `errors`). */
export type InstanceStatus = {
  state: "RUNNING" | "STANDBY";
  lastUsedAt: string;
  errors: readonly InfrastructureError[];
};

export interface Host {
  /** Resolves when the instance answers requests; leaves nothing when it rejects. Adds `claim` to the timing. */
  createInstance(request: InstanceRequest, options: { signal: AbortSignal; timing?: Timing }): Promise<void>;
  /** Idempotent; resolves when no process, mount, cgroup or file of it is left. */
  deleteInstance(instanceId: string): Promise<void>;
  /** Undefined when this host has no such instance. */
  instanceStatus(instanceId: string): InstanceStatus | undefined;
  /** Instances that belong to a sandbox (not the warm ones). */
  listInstances(): { instanceId: string; workspace: string; sandboxName: string; image: string }[];
  /** Names an image can be asked for by, for error details and listings. */
  listImages(): string[];
  /** The image a name stands for here, without asking a registry. */
  findImage(name: string): HostImage | undefined;
  /** Every image on this host, under each of its names. Waits a moment for sizes that are not known yet. */
  describeImages(): Promise<HostImage[]>;
  /**
   * Forgets a pulled image and removes its files, unless another name stands for them. `in_use`: an instance runs on them, or is being made,
   * or the host cannot be sure that none does; nothing has changed then.
   */
  removeImage(name: string): Promise<"removed" | "in_use" | "unknown">;
  /**
   * Seals what the host keeps of instances with the current key and resolves when it would survive a loss of power. `unreadable` are
   * instances whose record it cannot open or read.
   */
  resealInstances(signal: AbortSignal): Promise<{ resealed: number; unreadable: number }>;
  /** Serves a sandbox API request; `request.url` is already relative to the sandbox. Wakes a sleeping instance. */
  handle(instanceId: string, request: IncomingMessage, response: ServerResponse): void;
  upgrade(instanceId: string, request: IncomingMessage, socket: Duplex, head: Buffer): void;
}

/** Who asks: resolved from a credential. */
export type Principal = {
  id: string;
  kind: "user" | "service_account";
  role: "admin" | "member";
  /** The workspace it acts in. */
  workspace: string;
  /** What the credential allows, never more than the role does; `admin` covers all. */
  scopes: readonly string[];
};

/** What the edge asks the control plane, answered from its store and cached by the edge. */
export interface Directory {
  /**
   * Who asks, acting in that workspace. Throws `unauthenticated` when the credential is unknown, expired or revoked, `forbidden` when
   * it gives no access to the workspace, and the same `forbidden` when there is no such workspace.
   */
  authorize(credential: string, workspace: string | undefined): Promise<Principal> | Principal;
  /** The live sandbox of that name, or undefined. `enabled: false` means it accepts no connections (spec 2.3). */
  findRoute(workspace: string, sandboxName: string): Promise<SandboxRoute | undefined> | SandboxRoute | undefined;
  /** The workspace whose id stands in a host-form address, or undefined. */
  findWorkspaceById(workspaceId: string): Promise<string | undefined> | string | undefined;
  /** The preview at an address, or undefined: also from the moment it expires. */
  findPreview(label: string): Promise<PreviewRoute | undefined>;
  /** Whether the token opens the preview right now. */
  verifyPreviewToken(previewId: string, token: string): Promise<boolean>;
  /** Whether a text looks like a credential of this platform, whoever's and valid or not: no program inside may be sent one. */
  isPlatformCredential(text: string): boolean;
}

export type PreviewRoute = SandboxRoute & {
  previewId: string;
  /** Of a server inside; 443 is the sandbox API. */
  port: number;
  /** Without a token. */
  isPublic: boolean;
  requestHeaders: Readonly<Record<string, string>>;
  responseHeaders: Readonly<Record<string, string>>;
};

export type SandboxRoute = { instanceId: string; status: string; enabled: boolean };
