// The network operations over HTTP.
import { getProcessPorts, startPortMonitor, stopPortMonitor } from "../../contract/sandbox-api/network.ts";
import { AppError } from "../../core/errors.ts";
import type { Machine } from "../machine.ts";
import { type App, route } from "../route.ts";
import { parseCallback } from "./callback.ts";
import { beginOf } from "./inside-process.ts";

/** The kernel's own limit. */
const pidMax = 4_194_304;

export function registerNetworkRoutes(app: App): void {
  route(app, getProcessPorts, async ({ params, session, timing }) => {
    const pid = parsePid(params.pid);
    await beginOfExisting(session.machine, pid);
    const sockets = await timing.measure("guest", () => session.machine.guest.sockets(pid));
    const ports = sockets.map((socket) => ({
      pid: socket.pid ?? pid,
      protocol: socket.protocol,
      localAddr: socket.localAddress,
      localPort: socket.localPort,
      remoteAddr: socket.remoteAddress,
      remotePort: socket.remotePort,
      state: socket.state,
      processName: socket.processName,
    }));
    return { pid, ports };
  });

  route(app, startPortMonitor, async ({ params, body, session }) => {
    const pid = parsePid(params.pid);
    if (body.callback === undefined || body.callback === "") {
      throw new AppError("invalid_request", "'callback' is missing: the URL that is told of ports.");
    }
    parseCallback(body.callback);
    const began = await beginOfExisting(session.machine, pid);
    session.monitors.start({ pid, began, url: body.callback });
    return { pid, message: "Port monitoring started" };
  });

  route(app, stopPortMonitor, ({ params, session }) => {
    const pid = parsePid(params.pid);
    if (!session.monitors.stop(pid))
      throw new AppError("unprocessable", `The ports of process ${pid} are not monitored.`);
    return { pid, message: "Port monitoring stopped" };
  });
}

function parsePid(text: string): number {
  const pid = /^\d{1,7}$/.test(text) ? Number(text) : 0;
  if (pid < 1 || pid > pidMax) {
    throw new AppError("invalid_request", `The pid must be a whole number from 1 to ${pidMax}.`);
  }
  return pid;
}

async function beginOfExisting(machine: Machine, pid: number): Promise<string> {
  const began = await beginOf(machine, pid);
  if (began === undefined) {
    throw new AppError("unprocessable", `There is no process with the pid ${pid} in the sandbox.`);
  }
  return began;
}
