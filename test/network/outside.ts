// A piece of "outside" for network tests: a namespace with addresses of every kind, in which a server answers on all of them.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { randomToken } from "../../src/core/ids.ts";

/** The test's own piece of the address ranges reserved for documentation, private networks and so on. */
const own = randomInt(2, 250);

export type Outside = AsyncDisposable & {
  /** An address like any of the internet's. */
  publicAddress: string;
  /** The machine's address towards it. */
  machineAddress: string;
  /** Addresses that are not the internet, in the same place and with the same server. */
  innerAddresses: readonly string[];
  /** Arguments of `nsenter` for its network. */
  enter: readonly string[];
  /** Of a TCP server; port 53 has one too, and at the first inner address an echo of UDP packets. */
  port: number;
};

const port = 8080;

/** Answers each connection with the address it came from, each UDP packet with its own content. */
const server = `
const { createServer } = require("node:net");
const answer = (socket) => socket.on("error", () => {}).write(socket.remoteAddress + "\\n");
const udp = require("node:dgram").createSocket("udp4");
udp.on("message", (text, from) => udp.send(text, from.port, from.address));
createServer(answer).listen(${port}, "0.0.0.0", () =>
  createServer(answer).listen(53, "0.0.0.0", () => udp.bind(53, process.argv[1], () => console.log("ready"))));
`;

export async function openOutside(): Promise<Outside> {
  const device = `ct${randomToken(10)}`;
  const publicAddress = `198.51.100.${own}`;
  const machineAddress = `203.0.113.${own}`;
  const innerAddresses = ["10.77", "100.64", "169.254", "172.16", "192.168", "198.18"].map((net) => `${net}.77.${own}`);
  const child = spawn("unshare", ["--net", process.execPath, "-e", `setInterval(() => {}, 1000); console.log("up")`], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const processes: ChildProcess[] = [child];
  const close = async (): Promise<void> => {
    // Before the processes end: with them goes their namespace, and with that the device by itself, at some moment.
    if (existsSync(`/sys/class/net/${device}`)) ip([["link", "delete", "dev", device]]);
    for (const one of processes) {
      if (one.exitCode !== null || one.signalCode !== null) continue;
      one.kill("SIGKILL");
      await once(one, "exit");
    }
  };
  try {
    await once(child.stdout!, "data");
    const all = [publicAddress, ...innerAddresses];
    ip([
      ["link", "add", device, "type", "veth", "peer", "name", "eth0", "netns", String(child.pid)],
      ["link", "set", device, "up"],
      ["addr", "add", `${machineAddress}/32`, "dev", device],
      ...all.map((address) => ["route", "add", `${address}/32`, "dev", device, "src", machineAddress]),
    ]);
    const enter = ["--target", String(child.pid), "--net"];
    ip(
      [
        ["link", "set", "lo", "up"],
        ["link", "set", "eth0", "up"],
        ...all.map((address) => ["addr", "add", `${address}/32`, "dev", "eth0"]),
        ["route", "add", `${machineAddress}/32`, "dev", "eth0"],
        ["route", "add", "default", "via", machineAddress, "dev", "eth0"],
      ],
      enter,
    );
    const listening = spawn("nsenter", [...enter, process.execPath, "-e", server, innerAddresses[0]!], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    processes.unshift(listening);
    await once(listening.stdout!, "data");
  } catch (error) {
    await close().catch(() => undefined);
    throw error;
  }
  const enter = ["--target", String(child.pid), "--net"];
  return { publicAddress, machineAddress, innerAddresses, enter, port, [Symbol.asyncDispose]: close };
}

function ip(commands: readonly string[][], enter: readonly string[] = []): void {
  const input = `${commands.map((words) => words.join(" ")).join("\n")}\n`;
  if (enter.length > 0) execFileSync("nsenter", [...enter, "ip", "-batch", "-"], { input });
  else execFileSync("ip", ["-batch", "-"], { input });
}
