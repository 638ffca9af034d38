// What a sandbox is asked to be (spec 2.3 to 2.7 and 2.9): image, size, ports, environment, lifecycle, network, volumes.
import Type, { type Static } from "typebox";
import { DisplayName, Name } from "./metadata.ts";
import { SandboxNetwork, SandboxNetworkInput } from "./sandbox-network.ts";

export const defaultImage = "blaxel/base-image:latest";
export const defaultMemoryMb = 4096;
export const memoryMinMb = 128;
/** Ports that the platform itself answers on; 8080 names the sandbox API and may be listed. */
export const reservedPorts: readonly number[] = [80, 443];
/** A variable must fit one argument of the kernel, and all of them the space it gives a new program. */
export const envMaxBytes = 131_000;
export const envsMaxBytes = 1_000_000;
/** Stands for a secret value in answers. */
export const secretMask = "********";

export const Port = Type.Object(
  {
    target: Type.Integer({ minimum: 1, maximum: 65535 }),
    name: Type.Optional(DisplayName),
    protocol: Type.Optional(Type.Enum(["HTTP", "TCP", "UDP", "TLS"])),
  },
  { title: "Port" },
);
export type Port = Static<typeof Port>;

/** Names one secret of one integration connection. */
export const SecretKeyRef = Type.Object(
  {
    name: Name,
    key: Type.String({ pattern: "^[\\u0021-\\u007e]{1,128}$", rule: "1 to 128 visible ASCII characters" }),
  },
  { title: "SecretKeyRef" },
);
export type SecretKeyRef = Static<typeof SecretKeyRef>;

/** A variable has a `value`, or takes it from a secret with `valueFrom`: what that holds is never shown. */
export const Env = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 255, pattern: "^[^=\\u0000]+$", rule: "without `=` and NUL" }),
    value: Type.Optional(Type.String({ pattern: "^[^\\u0000]*$", rule: "without NUL" })),
    secret: Type.Optional(Type.Boolean()),
    valueFrom: Type.Optional(Type.Object({ secretKeyRef: SecretKeyRef })),
  },
  { title: "Env" },
);
export type Env = Static<typeof Env>;

const Duration = Type.String({
  pattern: "^[0-9]{1,12}[smhdw]$",
  rule: "a whole number and one of the units s, m, h, d, w, such as 15m",
});

const KernelOption = Type.Optional(Type.Enum(["enabled", "disabled"]));

const runtime = {
  image: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 512,
      pattern: "^[\\u0021-\\u007e]+$",
      rule: "an image name without spaces",
    }),
  ),
  memory: Type.Optional(Type.Integer({ minimum: memoryMinMb })),
  ports: Type.Optional(Type.Array(Port, { maxItems: 100 })),
  ttl: Type.Optional(Duration),
  expires: Type.Optional(Type.String({ maxLength: 64 })),
  terminationGracePeriodSeconds: Type.Optional(Type.Integer({ minimum: 0, maximum: 86_400 })),
  extraArgs: Type.Optional(
    Type.Object(
      { iptables: KernelOption, nfs: KernelOption, tun: KernelOption },
      { additionalProperties: false, rule: "a map of iptables, nfs or tun to enabled or disabled" },
    ),
  ),
};

export const SandboxRuntime = Type.Object(
  { ...runtime, envs: Type.Optional(Type.Array(Env)) },
  { title: "SandboxRuntime" },
);
const SandboxRuntimeInput = Type.Object(
  {
    ...runtime,
    envs: Type.Optional(Type.Array(Env, { maxItems: 1000 })),
  },
  { title: "SandboxRuntimeInput" },
);

export const SandboxLifecycle = Type.Object(
  {
    expirationPolicies: Type.Optional(
      Type.Array(
        Type.Object({
          action: Type.Optional(Type.Enum(["delete"])),
          type: Type.Optional(Type.Enum(["ttl-idle", "ttl-max-age", "date"])),
          value: Type.Optional(Type.String({ maxLength: 64 })),
        }),
        { maxItems: 100 },
      ),
    ),
    terminatedRetention: Type.Optional(Duration),
  },
  { title: "SandboxLifecycle" },
);

export const VolumeAttachment = Type.Object(
  {
    mountPath: Type.Optional(Type.String({ maxLength: 4096 })),
    name: Type.Optional(Type.String({ maxLength: 63 })),
    readOnly: Type.Optional(Type.Boolean()),
    sizeMb: Type.Optional(Type.Integer({ minimum: 1 })),
    type: Type.Optional(Type.Enum(["persistent", "ephemeral"])),
  },
  { title: "VolumeAttachment" },
);
export type VolumeAttachment = Static<typeof VolumeAttachment>;

const spec = {
  enabled: Type.Optional(Type.Boolean()),
  region: Type.Optional(Type.String({ minLength: 1, maxLength: 63 })),
  vpc: Type.Optional(Type.String({ minLength: 1, maxLength: 63 })),
  lifecycle: Type.Optional(SandboxLifecycle),
  volumes: Type.Optional(Type.Array(VolumeAttachment, { maxItems: 100 })),
};

export const SandboxSpec = Type.Object(
  {
    ...spec,
    runtime: Type.Optional(SandboxRuntime),
    network: Type.Optional(SandboxNetwork),
  },
  { title: "SandboxSpec" },
);
export type SandboxSpec = Static<typeof SandboxSpec>;

export const SandboxSpecInput = Type.Object(
  {
    ...spec,
    runtime: Type.Optional(SandboxRuntimeInput),
    network: Type.Optional(SandboxNetworkInput),
  },
  { title: "SandboxSpecInput" },
);
export type SandboxSpecInput = Static<typeof SandboxSpecInput>;
