// The operations about where this installation runs, mounted. There is one region; what is not built here is said to be unavailable.
import type { FastifyInstance } from "fastify";
import { implement } from "../../contract/implement.ts";
import { getConfiguration, type Location, listLocations, listPublicIps } from "../../contract/location.ts";
import type { LocationConfig } from "./config.ts";

/** What `nodeGeneration` of sandboxes says, without its last digit. */
const infoGeneration = "mk3";

export function mountLocations(
  app: FastifyInstance,
  { region, country, continent, publicCidrs }: LocationConfig,
): void {
  const place = { ...(country !== undefined && { country }), ...(continent !== undefined && { continent }) };

  const location: Location = { location: region, region, ...place, status: "available", flavors: [] };
  implement(app, listLocations, () => [location]);

  implement(app, getConfiguration, () => ({
    regions: [
      {
        name: region,
        location: region,
        ...place,
        allowed: "true",
        infoGeneration,
        drivesAvailable: false,
        egressAvailable: false,
        proxyAvailable: false,
        mk31Available: false,
      },
    ],
    countries: country === undefined ? [] : [{ name: country, displayName: country }],
    continents: continent === undefined ? [] : [{ name: continent, displayName: continent }],
    privateLocations: [],
    detectedRegion: "",
  }));

  implement(app, listPublicIps, ({ query }) => {
    if (query.region !== undefined && query.region !== region) return {};
    return {
      [region]: {
        description: `Addresses of sandboxes in ${region}, as their operator has stated them`,
        ipv4Cidrs: publicCidrs.filter((cidr) => !cidr.includes(":")),
        ipv6Cidrs: publicCidrs.filter((cidr) => cidr.includes(":")),
      },
    };
  });
}
