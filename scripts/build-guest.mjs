// Builds the guest's init with musl-gcc, and on demand the variants its tests run; does nothing when the sources are unchanged.
// Runs on Node 20. Usage: node scripts/build-guest.mjs [--sanitize] [--fuzz] [--vectors] [--force]; without a target, the init.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, utimesSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const guestDir = join(dirname(dirname(fileURLToPath(import.meta.url))), "guest");
const buildDir = join(guestDir, "build");

const common = [
  "-std=c11",
  "-D_GNU_SOURCE",
  "-Wall",
  "-Wextra",
  "-Wconversion",
  "-Wno-sign-conversion",
  "-Wshadow",
  "-Wstrict-prototypes",
  "-Wvla",
  "-Werror",
];
const hardened = ["-fstack-protector-strong", "-fno-plt", "-Wl,-z,relro,-z,now,-z,noexecstack"];
const small = ["-Os", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections", "-s"];
const sanitized = ["-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

/** Sources of the init in its own folder, and of its tests' programs, which share the decoders. */
const initSources = () => listSources(guestDir);
const decoderSources = ["cursor.c", "messages.c", "names.c", "upload.c"].map((name) => join(guestDir, name));
const testSource = (name) => join(guestDir, "test", name);

const targets = {
  init: {
    output: "catnap-init",
    compiler: "musl-gcc",
    flags: [...common, ...hardened, ...small, "-static"],
    sources: initSources,
  },
  sanitize: {
    output: "catnap-init-sanitized",
    compiler: "gcc",
    flags: [...common, ...sanitized],
    sources: initSources,
  },
  fuzz: {
    output: "fuzz",
    compiler: "gcc",
    flags: [...common, ...sanitized, `-I${guestDir}`],
    sources: () => [...decoderSources, testSource("fuzz.c"), testSource("fuzz-main.c")],
  },
  vectors: {
    output: "vectors",
    compiler: "gcc",
    flags: [...common, ...sanitized, `-I${guestDir}`],
    sources: () => [...decoderSources, testSource("vectors.c")],
  },
};

function listSources(dir) {
  return readdirSync(dir)
    .filter((name) => name.endsWith(".c"))
    .sort()
    .map((name) => join(dir, name));
}

/** What the output depends on: command, every source and every header. */
function fingerprint(target, sources) {
  const hash = createHash("sha256").update(JSON.stringify([target.compiler, target.flags]));
  const headers = readdirSync(guestDir)
    .filter((name) => name.endsWith(".h"))
    .sort();
  for (const path of [...sources, ...headers.map((name) => join(guestDir, name))]) {
    hash.update(path.slice(guestDir.length)).update("\0").update(readFileSync(path)).update("\0");
  }
  return hash.digest("hex");
}

function build(name, force) {
  const target = targets[name];
  const sources = target.sources();
  const output = join(buildDir, target.output);
  const stamp = `${output}.sha256`;
  const wanted = fingerprint(target, sources);
  if (!force && existsSync(output) && existsSync(stamp) && readFileSync(stamp, "utf8") === wanted) {
    // Whoever compares times instead of content finds it newer than its sources.
    utimesSync(output, new Date(), new Date());
    return;
  }
  mkdirSync(buildDir, { recursive: true });
  // Compiled beside and renamed: a running init keeps its file, and two builds at once do not mix.
  const temporary = `${output}.${process.pid}`;
  const version = `-DCATNAP_BUILD="${wanted.slice(0, 12)}"`;
  const args = [...target.flags, version, "-o", temporary, ...sources];
  const result = spawnSync(target.compiler, args, { stdio: "inherit" });
  if (result.error !== undefined || result.status !== 0) {
    const reason = result.error?.message ?? `${target.compiler} ended with ${result.status ?? result.signal}`;
    console.error(`guest: building ${target.output} failed: ${reason}`);
    process.exit(1);
  }
  renameSync(temporary, output);
  writeFileSync(stamp, wanted);
}

const options = process.argv.slice(2);
const known = ["--force", ...Object.keys(targets).map((name) => `--${name}`)];
const unknown = options.find((option) => !known.includes(option));
if (unknown !== undefined) {
  console.error(`guest: unknown option ${unknown}; known: ${known.join(" ")}`);
  process.exit(2);
}
const chosen = Object.keys(targets).filter((name) => options.includes(`--${name}`));
for (const name of chosen.length === 0 ? ["init"] : chosen) build(name, options.includes("--force"));
