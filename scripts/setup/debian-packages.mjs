// Installs what the platform needs of the machine's own packages. Services of packages are not started.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { outputOf, plainEnvironment, run, SetupError } from "./command.mjs";

/** What running sandboxes needs. */
export const platformPackages = [
  "bubblewrap", // confines the programs that handle images
  "ca-certificates",
  "debian-archive-keyring", // mmdebstrap on a machine that is not Debian itself
  "gcc", // musl-gcc calls it
  "iproute2",
  "linux-libc-dev", // the kernel's headers, for the guest
  "mmdebstrap",
  "mount",
  "musl-tools",
  "nftables",
  "runc",
  "skopeo",
  "tar",
  "umoci",
  "util-linux",
];

/** What the tests need besides: the guest's sanitizer build wants the C library's headers, the first start is tried with curl. */
export const testPackages = ["curl", "libc6-dev", "procps"];

/**
 * Debian packages whose services must not start: only their programs are unpacked, beside the image directory.
 * `parts` are unpacked into the same place, with whatever else of their dependencies the machine lacks.
 * @type {{ name: string, program: string, parts?: string[] }[]}
 */
const unpackedForTests = [
  { name: "docker-registry", program: "usr/bin/docker-registry" },
  {
    name: "postgresql-15",
    program: "usr/lib/postgresql/15/bin/postgres",
    parts: ["postgresql-15", "postgresql-client-15", "libpq5"],
  },
];

const aptOptions = [
  "--yes",
  "--quiet",
  "--no-install-recommends",
  "-o",
  "DPkg::Lock::Timeout=300",
  "-o",
  "Dpkg::Use-Pty=0",
  "-o",
  "Dpkg::Options::=--force-confold",
  "-o",
  "Acquire::Retries=3",
];

function aptEnvironment() {
  return { ...plainEnvironment(), DEBIAN_FRONTEND: "noninteractive", NEEDRESTART_SUSPEND: "1", LC_ALL: "C.UTF-8" };
}

/** @param {string[]} wanted */
export function missingPackages(wanted) {
  const listed = outputOf("dpkg-query", ["--show", "--showformat", "${Package} ${db:Status-Status}\n"]);
  if (listed === undefined) {
    throw new SetupError(
      "This machine has no dpkg: set-up installs its parts from Debian packages.",
      `Use Debian 12 (or a relative with apt), or install these yourself and start with CATNAP_SKIP_PACKAGES=1: ${wanted.join(" ")}`,
    );
  }
  const installed = new Set(
    listed
      .split("\n")
      .filter((line) => line.endsWith(" installed"))
      .map((line) => line.slice(0, line.indexOf(" "))),
  );
  return wanted.filter((name) => !installed.has(name));
}

/**
 * @param {string[]} names
 * @param {(text: string) => void} onLine
 */
export async function installPackages(names, onLine) {
  const install = () => run("apt-get", [...aptOptions, "install", ...names], { env: aptEnvironment(), onLine });
  if (!hasPackageLists()) await updatePackageLists(onLine);
  try {
    await install();
  } catch {
    // An installation that was interrupted has to be finished first; lists older than the mirror name files it no longer has.
    await run("dpkg", ["--configure", "-a"], { env: aptEnvironment(), onLine });
    await updatePackageLists(onLine);
    await install();
  }
  const missing = missingPackages(names);
  if (missing.length > 0) throw new SetupError(`apt-get reported success, yet these are missing: ${missing.join(" ")}`);
}

function hasPackageLists() {
  try {
    return readdirSync("/var/lib/apt/lists").some((name) => name.includes("_Packages"));
  } catch {
    return false;
  }
}

/** @param {(text: string) => void} onLine */
async function updatePackageLists(onLine) {
  try {
    await run("apt-get", [...aptOptions, "update"], { env: aptEnvironment(), onLine });
  } catch (error) {
    throw new SetupError(
      `The list of Debian packages could not be fetched: ${/** @type {Error} */ (error).message}`,
      "Check the machine's network and /etc/apt/sources.list, run `apt-get update`, then try again.",
    );
  }
}

/** @param {string} toolsDir */
export function missingTestTools(toolsDir) {
  return unpackedForTests.filter(({ name, program }) => !existsSync(join(toolsDir, name, program)));
}

/**
 * Unpacks the tests' servers beside each other under `toolsDir`, each complete or not at all.
 * @param {string} toolsDir
 * @param {(text: string) => void} onLine
 */
export async function unpackTestTools(toolsDir, onLine) {
  mkdirSync(toolsDir, { recursive: true });
  for (const { name, parts } of missingTestTools(toolsDir)) {
    const work = mkdtempSync(join(toolsDir, ".work-"));
    try {
      if (!hasPackageLists()) await updatePackageLists(onLine);
      const download = () => downloadPackages(work, parts ?? [name], { withMissing: parts !== undefined, onLine });
      await download().catch(async () => {
        await updatePackageLists(onLine);
        await download();
      });
      const archives = readdirSync(work).filter((file) => file.endsWith(".deb"));
      if (archives.length === 0) throw new SetupError(`apt-get download ${name} left no file`);
      for (const archive of archives) await run("dpkg", ["--extract", join(work, archive), join(work, "root")]);
      rmSync(join(toolsDir, name), { recursive: true, force: true });
      mkdirSync(dirname(join(toolsDir, name)), { recursive: true });
      renameSync(join(work, "root"), join(toolsDir, name));
    } finally {
      rmSync(work, { recursive: true, force: true });
    }
  }
}

/**
 * Leaves the archives of the packages in `dir` and, if asked to, of all that the machine lacks of what they depend on.
 * @param {string} dir
 * @param {string[]} names
 * @param {{ withMissing: boolean, onLine: (text: string) => void }} options
 */
async function downloadPackages(dir, names, { withMissing, onLine }) {
  const options = { cwd: dir, env: aptEnvironment(), onLine };
  if (withMissing) {
    mkdirSync(join(dir, "partial"), { recursive: true });
    const only = ["-o", `Dir::Cache::archives=${dir}`, "-o", "APT::Sandbox::User=root", "--download-only"];
    await run("apt-get", [...aptOptions, ...only, "install", ...names], options);
  }
  // Those that the machine has installed already.
  const left = names.filter((name) => !readdirSync(dir).some((file) => file.startsWith(`${name}_`)));
  if (left.length > 0) await run("apt-get", ["-o", "APT::Sandbox::User=root", "download", ...left], options);
}
