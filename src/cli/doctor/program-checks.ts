// The programs and files that running sandboxes needs: of Debian, and built by the set-up.
import { join } from "node:path";
import { type Check, ok, problem } from "./check.ts";

/** Debian package of each program that running sandboxes needs. */
const programs = {
  skopeo: "skopeo",
  umoci: "umoci",
  bwrap: "bubblewrap",
  ip: "iproute2",
  nsenter: "util-linux",
  mount: "mount",
  tar: "tar",
};

export const checkRuntime: Check = ({ findProgram, isExecutable }, { ociRuntime }) => {
  const path = ociRuntime.includes("/") ? (isExecutable(ociRuntime) ? ociRuntime : undefined) : findProgram(ociRuntime);
  return path !== undefined
    ? ok("OCI runtime", path)
    : problem(
        "OCI runtime",
        `${ociRuntime} is missing`,
        `apt-get install --yes ${ociRuntime.includes("/") ? "runc" : ociRuntime}`,
      );
};

export const checkPrograms: Check = ({ findProgram }) => {
  const missing = Object.entries(programs).filter(([name]) => findProgram(name) === undefined);
  const packages = [...new Set(missing.map(([, name]) => name))];
  return missing.length === 0
    ? ok("programs", Object.keys(programs).join(", "))
    : problem(
        "programs",
        `missing: ${missing.map(([name]) => name).join(", ")}`,
        `apt-get install --yes ${packages.join(" ")}`,
      );
};

export const checkGuest: Check = ({ isExecutable }, { guestBinary }) =>
  isExecutable(guestBinary) ? ok("sandboxes' init", "built") : problem("sandboxes' init", "not built", "npm run setup");

export const checkImage: Check = ({ readFile, stat }, { imageDir }) => {
  const remedy = "npm run setup";
  const text = readFile(join(imageDir, "platform", "base-image.json"));
  if (text === undefined) return problem("base image", "not built", remedy);
  const digest = /"digest":\s*"([0-9a-f]+)"/.exec(text)?.[1] ?? "";
  return digest !== "" && stat(join(imageDir, "rootfs", digest))?.isDirectory === true
    ? ok("base image", digest.slice(0, 12))
    : problem("base image", "its files are gone", remedy);
};
