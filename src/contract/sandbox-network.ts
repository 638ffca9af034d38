// Network settings of a sandbox (spec 2.8), as given and as returned: secrets of proxy rules are accepted and never returned.
import Type, { type Static } from "typebox";

const Texts = Type.Array(Type.String({ maxLength: 253 }), { maxItems: 1000 });
const TextMap = Type.Record(Type.String(), Type.String({ maxLength: 8192 }), { maxProperties: 100 });

const EgressPolicy = Type.Object({
  destinations: Type.Optional(Texts),
  mode: Type.Optional(Type.String({ maxLength: 63 })),
  name: Type.Optional(Type.String({ maxLength: 63 })),
});

const EgressConfig = Type.Object({
  gateway: Type.Optional(Type.String({ maxLength: 63 })),
  mode: Type.Optional(Type.String({ maxLength: 63 })),
  policies: Type.Optional(Type.Array(EgressPolicy, { maxItems: 100 })),
});

const FirewallConfig = Type.Object({
  rulesets: Type.Optional(Type.Array(Type.Enum(["default", "proxy", "dedicated-ip"]), { maxItems: 10 })),
});

const proxyTarget = {
  destinations: Type.Optional(Texts),
  headers: Type.Optional(TextMap),
  body: Type.Optional(TextMap),
};
const ProxyTarget = Type.Object(proxyTarget);
const ProxyTargetInput = Type.Object({ ...proxyTarget, secrets: Type.Optional(TextMap) });

const proxyConfig = {
  allowedDomains: Type.Optional(Texts),
  forbiddenDomains: Type.Optional(Texts),
  bypass: Type.Optional(Texts),
};

const network = {
  subnet: Type.Optional(Type.String({ minLength: 1, maxLength: 63 })),
  egress: Type.Optional(EgressConfig),
  firewall: Type.Optional(FirewallConfig),
  /** Deprecated in favour of `proxy.allowedDomains`. */
  allowedDomains: Type.Optional(Texts),
  /** Deprecated in favour of `proxy.forbiddenDomains`. */
  forbiddenDomains: Type.Optional(Texts),
};

export const SandboxNetworkInput = Type.Object(
  {
    ...network,
    proxy: Type.Optional(
      Type.Object({ ...proxyConfig, routing: Type.Optional(Type.Array(ProxyTargetInput, { maxItems: 100 })) }),
    ),
  },
  { title: "SandboxNetworkInput" },
);
export type SandboxNetworkInput = Static<typeof SandboxNetworkInput>;

export const SandboxNetwork = Type.Object(
  {
    ...network,
    proxy: Type.Optional(Type.Object({ ...proxyConfig, routing: Type.Optional(Type.Array(ProxyTarget)) })),
  },
  { title: "SandboxNetwork" },
);
