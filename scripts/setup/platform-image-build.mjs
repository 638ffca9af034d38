// Builds a platform image from Debian packages and publishes it whole: a reader finds the old image or the new one, never a part.
import { createHash } from "node:crypto";
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { outputOf, run, SetupError } from "./command.mjs";
import { recordPath } from "./platform-image.mjs";
import { makeWorkDir } from "./work-dir.mjs";

/** @typedef {import("./platform-image.mjs").Definition} Definition */

/** Settings of the machine's apt that reaching a mirror may depend on; they are used for building and are not kept in the image. */
const machineAptSettings =
  /^Acquire::(http|https|ftp)::(Proxy|Proxy-Auto-Detect|CaInfo|Timeout|Verify-Peer|Verify-Host)|^Acquire::(Retries|ForceIPv4|ForceIPv6|Check-Valid-Until|Check-Date)\b/i;

/** Where this machine gets Debian from, so that a machine with its own mirror needs no other. */
function debianMirrors() {
  const mirrors = {
    Debian: "http://deb.debian.org/debian",
    "Debian-Security": "http://deb.debian.org/debian-security",
  };
  const format = "$(ORIGIN)|$(LABEL)|$(REPO_URI)";
  const targets = outputOf("apt-get", ["indextargets", "--format", format, "Created-By: Packages"]) ?? "";
  for (const line of targets.split("\n")) {
    const [origin, label, uri] = line.split("|");
    if (origin === "Debian" && label in mirrors && /^https?:/.test(uri)) {
      mirrors[/** @type {keyof typeof mirrors} */ (label)] = uri.replace(/\/$/, "");
    }
  }
  return { main: mirrors.Debian, security: mirrors["Debian-Security"] };
}

function machineAptOptions() {
  return (outputOf("apt-config", ["dump"]) ?? "")
    .split("\n")
    .filter((line) => machineAptSettings.test(line) && !line.includes('""'))
    .map((line) => `--aptopt=${line}`);
}

/**
 * @param {Definition} definition
 * @param {string} root
 * @param {(line: string) => void} onLine
 */
async function installDebian(definition, root, onLine) {
  const { main, security } = debianMirrors();
  const signedBy = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]";
  // All of the building dies with set-up, so that an interrupted one leaves nothing that still writes.
  const together = ["--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
  await run(
    "setpriv",
    [
      ...together,
      "mmdebstrap",
      "--mode=unshare",
      "--variant=apt",
      "--format=directory",
      "--verbose",
      `--include=${definition.packages.join(",")}`,
      `--dpkgopt=${join(definition.filesDir, "etc/dpkg/dpkg.cfg.d/catnap")}`,
      '--aptopt=APT::Sandbox::User "root"',
      ...machineAptOptions(),
      definition.suite,
      root,
      `deb ${signedBy} ${main} ${definition.suite} main`,
      `deb ${signedBy} ${main} ${definition.suite}-updates main`,
      `deb ${signedBy} ${security} ${definition.suite}-security main`,
    ],
    { onLine, timeoutMs: 900_000 },
  ).catch((error) => {
    throw new SetupError(
      error.message,
      `Check that this machine reaches ${main} (\`apt-get update\` says), then try again.`,
    );
  });
}

/**
 * Removes what the building left and what ties the image to this machine.
 * @param {string} root
 */
function removeTraces(root) {
  for (const path of [
    "etc/apt/apt.conf.d/99mmdebstrap",
    "etc/dpkg/dpkg.cfg.d/99mmdebstrap",
    "etc/apt/sources.list",
    "etc/apt/sources.list.d/0000.list",
    "etc/hostname",
    "etc/resolv.conf",
    "etc/machine-id",
    "var/lib/dbus/machine-id",
    "var/log/apt",
    "var/log/dpkg.log",
    "var/log/bootstrap.log",
    "var/log/alternatives.log",
    "var/cache/apt/pkgcache.bin",
    "var/cache/apt/srcpkgcache.bin",
    "var/cache/debconf/templates.dat-old",
    "var/cache/debconf/config.dat-old",
    "var/lib/dpkg/status-old",
    "root/.npm",
  ]) {
    rmSync(join(root, path), { recursive: true, force: true });
  }
  for (const directory of ["var/lib/apt/lists", "var/cache/apt/archives", "tmp", "dev"]) {
    for (const name of readdirSync(join(root, directory)))
      rmSync(join(root, directory, name), { recursive: true, force: true });
  }
}

/**
 * @param {Definition} definition
 * @param {string} root
 * @param {string} projectDir
 * @param {(line: string) => void} onLine
 */
async function addProgramsAndFiles(definition, root, projectDir, onLine) {
  copyFileSync(join(projectDir, `node_modules/node-linux-${process.arch}/bin/node`), join(root, "usr/local/bin/node"));
  chmodSync(join(root, "usr/local/bin/node"), 0o755);
  const prefix = join(root, "usr/local");
  await run(
    "npm",
    [
      "install",
      "--global",
      "--prefix",
      prefix,
      "--ignore-scripts",
      "--no-audit",
      "--no-fund",
      `npm@${definition.npmVersion}`,
    ],
    { cwd: root, onLine },
  );
  removeTraces(root);
  mkdirSync(join(root, definition.homeDir), { recursive: true, mode: 0o755 });
  cpSync(definition.filesDir, root, { recursive: true });
  const passwd = join(root, "etc/passwd");
  const accounts = readFileSync(passwd, "utf8").replace(
    /^root:.*$/m,
    `root:x:0:0:root:${definition.homeDir}:/bin/bash`,
  );
  writeFileSync(passwd, accounts);
}

/**
 * Moves every file's owner and group into the unprivileged range. Changing an owner clears set-id bits, so they are set again.
 * @param {string} path
 * @param {{ start: number, count: number }} range
 */
function shiftIds(path, range) {
  const info = lstatSync(path);
  if (info.uid < range.count) {
    if (info.gid >= range.count) throw new Error(`group ${info.gid} of ${path} does not fit the id range`);
    lchownSync(path, info.uid + range.start, info.gid + range.start);
    if (!info.isSymbolicLink() && (info.mode & 0o6000) !== 0) chmodSync(path, info.mode & 0o7777);
  }
  if (info.isDirectory()) for (const name of readdirSync(path)) shiftIds(join(path, name), range);
}

/**
 * @param {{ definition: Definition, imageDir: string, projectDir: string, onLine: (line: string) => void }} options
 */
export async function buildPlatformImage({ definition, imageDir, projectDir, onLine }) {
  const work = makeWorkDir(imageDir);
  try {
    const root = join(work, "rootfs");
    await installDebian(definition, root, onLine);
    await addProgramsAndFiles(definition, root, projectDir, onLine);
    onLine("publishing");
    const packages = readFileSync(join(root, "var/lib/dpkg/status"));
    const digest = createHash("sha256").update(definition.hash).update(packages).digest("hex");
    shiftIds(root, definition.idRange);
    await publish({ definition, imageDir, work, root, digest });
  } finally {
    await run("rm", ["-rf", "--one-file-system", "--", work]);
  }
}

/** @param {{ definition: Definition, imageDir: string, work: string, root: string, digest: string }} options */
async function publish({ definition, imageDir, work, root, digest }) {
  const target = join(imageDir, "rootfs", digest);
  await run("sync", ["-f", root]);
  if (!existsSync(target)) renameSync(root, target);
  const { name, description, aliases, environment, workingDir, homeDir, hash, idRange } = definition;
  const record = {
    name,
    description,
    aliases,
    digest,
    definition: hash,
    idRangeStart: idRange.start,
    environment,
    workingDir,
    homeDir,
  };
  writeFileSync(join(work, "record.json"), `${JSON.stringify(record, undefined, 2)}\n`, { mode: 0o600, flush: true });
  renameSync(join(work, "record.json"), recordPath(imageDir, name));
}
