// Where the platform is to live: disk, memory, address and data directory.
import { join } from "node:path";
import { formatBytes } from "../format.ts";
import { type Check, note, ok, problem } from "./check.ts";

const gib = 1024 ** 3;
const diskNeededBytes = 2 * gib;
const diskWishedBytes = 5 * gib;
const memoryNeededBytes = 0.5 * gib;
const memoryWishedBytes = 1.5 * gib;

export const checkDisk: Check = ({ freeDiskBytes }, { dataDir }) => {
  const free = freeDiskBytes(dataDir);
  if (free === undefined) return note("disk", `cannot tell how much is free at ${dataDir}`);
  const found = `${formatBytes(free)} free at ${dataDir}`;
  if (free < diskNeededBytes)
    return problem(
      "disk",
      found,
      `free some, or choose another --data-dir: ${formatBytes(diskNeededBytes)} are needed`,
    );
  return free < diskWishedBytes ? note("disk", `${found}; little for many sandboxes`) : ok("disk", found);
};

export const checkMemory: Check = ({ readFile }) => {
  const match = /^MemAvailable:\s+(\d+) kB$/m.exec(readFile("/proc/meminfo") ?? "");
  if (match === null) return note("memory", "cannot tell how much is free");
  const available = Number(match[1]) * 1024;
  const found = `${formatBytes(available)} available`;
  if (available < memoryNeededBytes)
    return problem("memory", found, `free some: ${formatBytes(memoryNeededBytes)} are needed`);
  return available < memoryWishedBytes ? note("memory", `${found}; little for several sandboxes`) : ok("memory", found);
};

export const checkAddress: Check = async ({ addressUser }, { host, port }) => {
  const address = `${host}:${port}`;
  switch (await addressUser(host, port)) {
    case "free":
      return ok("address", `${address} is free`);
    case "catnap":
      return ok("address", `a catnap answers on ${address}`);
    case "other":
      return problem(
        "address",
        `another program has ${address}`,
        `stop it, or: catnap up --listen ${host}:${port + 100}`,
      );
    case "foreign":
      return problem("address", `${host} is no address of this machine`, `catnap up --listen 127.0.0.1:${port}`);
    case "forbidden":
      return problem("address", `this user may not answer on ${address}`, "start as root, or take a port from 1024 on");
  }
};

export const checkDataDir: Check = ({ stat, isWritable, userId }, { dataDir }) => {
  const choose = "choose another with --data-dir";
  const info = stat(dataDir);
  if (info !== undefined && !info.isDirectory)
    return problem("data directory", `${dataDir} is not a directory`, choose);
  // Another user than root is told so already.
  if (userId === 0 && !isWritable(dataDir))
    return problem("data directory", `${dataDir} cannot be ${info === undefined ? "made" : "written to"}`, choose);
  if (info === undefined) return ok("data directory", `${dataDir} is made at the first start`);
  if (info.uid !== userId && userId === 0)
    return problem("data directory", `${dataDir} belongs to user ${info.uid}`, `chown root: ${dataDir}`);
  return (info.mode & 0o022) === 0
    ? ok("data directory", dataDir)
    : problem("data directory", `others may write to ${dataDir}`, `chmod go-w ${dataDir}`);
};

export const checkCredentials: Check = ({ stat }, { dataDir }) => {
  const path = join(dataDir, "credentials.json");
  const info = stat(path);
  if (info === undefined) return note("credentials", "made at the first start");
  return (info.mode & 0o077) === 0
    ? ok("credentials", path)
    : problem("credentials", `others may read ${path}`, `chmod 600 ${path}`);
};
