// Reads the definitions of the platform images and says whether what is built of one is current.
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join, relative } from "node:path";

/** Counts changes of the building itself that the definition does not show. */
const buildFormat = 1;

/**
 * @typedef {object} Definition
 * @property {string} name
 * @property {string} description
 * @property {string[]} aliases Further names callers may use.
 * @property {string} suite Debian release.
 * @property {string[]} packages
 * @property {string} npmVersion
 * @property {string} workingDir
 * @property {string} homeDir
 * @property {Record<string, string>} environment
 * @property {string} filesDir Copied over the root as they are.
 * @property {{ start: number, count: number }} idRange
 * @property {string} nodeVersion
 * @property {string} hash Of all of this.
 */

/**
 * @param {string} dir
 * @returns {string[]}
 */
function filesBelow(dir) {
  return readdirSync(dir, { withFileTypes: true })
    .flatMap((entry) => (entry.isDirectory() ? filesBelow(join(dir, entry.name)) : [join(dir, entry.name)]))
    .sort();
}

/**
 * @param {string} projectDir
 * @param {string} name
 * @returns {Definition}
 */
export function readDefinition(projectDir, name) {
  const dir = join(projectDir, "images", name);
  const idRange = JSON.parse(readFileSync(join(projectDir, "images/id-range.json"), "utf8"));
  const nodePackage = join(projectDir, `node_modules/node-linux-${process.arch}/package.json`);
  const nodeVersion = JSON.parse(readFileSync(nodePackage, "utf8")).version;
  const hash = createHash("sha256").update(JSON.stringify([buildFormat, name, idRange, nodeVersion, process.arch]));
  for (const file of filesBelow(dir)) {
    hash.update(JSON.stringify([relative(dir, file), (statSync(file).mode & 0o111) !== 0]));
    hash.update(createHash("sha256").update(readFileSync(file)).digest());
  }
  const content = JSON.parse(readFileSync(join(dir, "image.json"), "utf8"));
  return { ...content, name, filesDir: join(dir, "files"), idRange, nodeVersion, hash: hash.digest("hex") };
}

/** @param {string} projectDir */
export function platformImageNames(projectDir) {
  return readdirSync(join(projectDir, "images"), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name);
}

/**
 * @param {string} imageDir
 * @param {string} name
 */
export function recordPath(imageDir, name) {
  return join(imageDir, "platform", `${name}.json`);
}

/**
 * Whether the image that is built is the defined one; it is not while the definition's own parts are still missing. A record is
 * written last, so what it names is whole.
 * @param {{ projectDir: string, imageDir: string, name: string }} options
 */
export function isCurrent({ projectDir, imageDir, name }) {
  try {
    const record = JSON.parse(readFileSync(recordPath(imageDir, name), "utf8"));
    return (
      record.definition === readDefinition(projectDir, name).hash && existsSync(join(imageDir, "rootfs", record.digest))
    );
  } catch {
    return false;
  }
}
