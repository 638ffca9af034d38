// A preview of port 3000 of a sandbox as tests of the edge put it into the directory: its two addresses and its token.
import type { PreviewRoute } from "../../src/contract/host.ts";

/** Label of a preview without a prefix of its own: it is reached below the platform's origin. */
export const madeLabel = "abcdefghijklmnopqrstuvwxyz";
/** Host of the preview whose label is `shop-w1`. */
export const previewHost = "shop-w1.preview.sandboxes.test";
export const goodToken = "pt_good";

export const webPreview: PreviewRoute = {
  previewId: "p1",
  instanceId: "box",
  status: "DEPLOYED",
  enabled: true,
  port: 3000,
  isPublic: false,
  requestHeaders: {},
  responseHeaders: {},
};
