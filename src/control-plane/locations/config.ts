// Settings about where this installation stands and which addresses it is seen with.
import { isIP } from "node:net";
import { invalidSetting, readList, readText, type Settings } from "../../core/settings.ts";

export type LocationConfig = {
  region: string;
  /** ISO 3166-1, two letters, in lower case. */
  country: string | undefined;
  /** Two letters, e.g. `eu`. */
  continent: string | undefined;
  /** Only the operator knows which addresses the network outside gives to what comes from here. */
  publicCidrs: readonly string[];
};

const continents = ["af", "an", "as", "eu", "na", "oc", "sa"];

export function readLocationConfig(settings: Settings, region: string): LocationConfig {
  const country = readText(settings, "CATNAP_REGION_COUNTRY")?.toLowerCase();
  if (country !== undefined && !/^[a-z]{2}$/.test(country))
    throw invalidSetting("CATNAP_REGION_COUNTRY", "a country's two letters, e.g. de");
  const continent = readText(settings, "CATNAP_REGION_CONTINENT")?.toLowerCase();
  if (continent !== undefined && !continents.includes(continent))
    throw invalidSetting("CATNAP_REGION_CONTINENT", `one of ${continents.join(", ")}`);
  const publicCidrs = readList(settings, "CATNAP_PUBLIC_IPS", "").map(readCidr);
  return { region, country, continent, publicCidrs };
}

/** An address alone stands for itself. */
function readCidr(text: string): string {
  const [address = "", length, ...more] = text.split("/");
  const version = isIP(address);
  const bits = version === 6 ? 128 : 32;
  const isLength = length === undefined || (/^\d{1,3}$/.test(length) && Number(length) <= bits);
  if (version === 0 || !isLength || more.length > 0)
    throw invalidSetting("CATNAP_PUBLIC_IPS", "addresses or networks such as 203.0.113.7/32, separated by commas");
  return `${address}/${length ?? bits}`;
}
