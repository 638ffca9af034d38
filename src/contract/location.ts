// Where this installation runs: its one region, what it can do there, and the addresses its sandboxes come from.
import Type, { type Static } from "typebox";
import { endpoint } from "./endpoint.ts";

export const Location = Type.Object({
  location: Type.String(),
  region: Type.String(),
  country: Type.Optional(Type.String()),
  continent: Type.Optional(Type.String()),
  status: Type.String(),
  flavors: Type.Array(Type.Object({ name: Type.String(), type: Type.Enum(["cpu", "gpu"]) })),
});
export type Location = Static<typeof Location>;

const Named = Type.Object({ name: Type.String(), displayName: Type.String() });

export const Configuration = Type.Object({
  regions: Type.Array(
    Type.Object({
      name: Type.String(),
      location: Type.String(),
      country: Type.Optional(Type.String()),
      continent: Type.Optional(Type.String()),
      allowed: Type.String(),
      infoGeneration: Type.String(),
      drivesAvailable: Type.Boolean(),
      egressAvailable: Type.Boolean(),
      proxyAvailable: Type.Boolean(),
      mk31Available: Type.Boolean(),
    }),
  ),
  countries: Type.Array(Named),
  continents: Type.Array(Named),
  privateLocations: Type.Array(Type.Object({ name: Type.String() })),
  /** Empty: the region of a caller is not guessed. */
  detectedRegion: Type.String(),
});
export type Configuration = Static<typeof Configuration>;

export const PublicIps = Type.Record(
  Type.String(),
  Type.Object({
    description: Type.String(),
    ipv4Cidrs: Type.Array(Type.String()),
    ipv6Cidrs: Type.Array(Type.String()),
  }),
);
export type PublicIps = Static<typeof PublicIps>;

const tag = "locations";

export const listLocations = endpoint({
  method: "GET",
  path: "/locations",
  summary: "List the locations sandboxes can run in",
  tag,
  scope: "locations:list",
  response: Type.Array(Location),
});

export const getConfiguration = endpoint({
  method: "GET",
  path: "/configuration",
  summary: "Say which regions there are and what each can do",
  tag,
  scope: "configurations:list",
  response: Configuration,
});

export const listPublicIps = endpoint({
  method: "GET",
  path: "/publicIps",
  summary: "List the addresses that requests from sandboxes come from, by region",
  tag,
  scope: "admin",
  query: Type.Object({ region: Type.Optional(Type.String({ maxLength: 63 })) }),
  response: PublicIps,
});
