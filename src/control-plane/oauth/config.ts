// Settings of the OAuth server.
import { invalidSetting, readDurationMs, type Settings } from "../../core/settings.ts";

export type OauthConfig = {
  accessTokenTtlMs: number;
  /** How long a key signs before the next one takes over. */
  signingKeyRotationMs: number;
};

const accessTokenTtlMaxMs = 86_400_000;

export function readOauthConfig(settings: Settings): OauthConfig {
  const accessTokenTtlMs = readDurationMs(settings, "CATNAP_ACCESS_TOKEN_TTL", "2h");
  if (accessTokenTtlMs < 1_000 || accessTokenTtlMs > accessTokenTtlMaxMs) {
    throw invalidSetting("CATNAP_ACCESS_TOKEN_TTL", "a duration from 1s to 24h");
  }
  const signingKeyRotationMs = readDurationMs(settings, "CATNAP_SIGNING_KEY_ROTATION", "30d");
  if (signingKeyRotationMs < 3_600_000)
    throw invalidSetting("CATNAP_SIGNING_KEY_ROTATION", "a duration of at least 1h");
  return { accessTokenTtlMs, signingKeyRotationMs };
}
