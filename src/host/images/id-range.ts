// The unprivileged ids that stand for a sandbox's own: id 0 inside is `start` on this machine. Set-up builds images with the same file.
import range from "../../../images/id-range.json" with { type: "json" };

export const idRange: { readonly start: number; readonly count: number } = range;
