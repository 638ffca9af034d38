// What processes of a sandbox listen on and are connected to, and who is told of new ports; the tunnel is declared but not offered.
import { type Static, Type } from "typebox";
import { endpoint } from "../endpoint.ts";

export const callbackMaxLength = 2_048;

const ByPid = Type.Object({ pid: Type.String({ description: "The process's number inside the sandbox." }) });
const scope = "sandboxes:control";
const tag = "network";

export const ProcessPort = Type.Object({
  pid: Type.Integer(),
  protocol: Type.String({ description: "`tcp` or `udp`" }),
  localAddr: Type.String(),
  localPort: Type.Integer(),
  remoteAddr: Type.String(),
  remotePort: Type.Integer(),
  state: Type.String({ description: "As Linux names it, e.g. `LISTEN`." }),
  processName: Type.String(),
});
export type ProcessPort = Static<typeof ProcessPort>;

export const MonitorRequest = Type.Object({
  callback: Type.Optional(
    Type.String({
      maxLength: callbackMaxLength,
      description:
        "An http or https URL that is told of ports, asked as a program inside the sandbox would ask it: by the sandbox's names, to where " +
        "its network lets it, so `localhost` is the sandbox. Redirections are not followed; https needs a certificate this machine trusts.",
    }),
  ),
});

const PidMessage = Type.Object({ pid: Type.Integer(), message: Type.String() });

export const getProcessPorts = endpoint({
  method: "GET",
  path: "/network/process/:pid/ports",
  summary: "List the sockets of a process and of the processes it started",
  tag,
  scope,
  params: ByPid,
  response: Type.Object({ pid: Type.Integer(), ports: Type.Array(ProcessPort) }),
  errors: [422],
});

export const startPortMonitor = endpoint({
  method: "POST",
  path: "/network/process/:pid/monitor",
  summary:
    "Tell a callback, by POST of `{pid, port}` from inside the sandbox, each port that the process listens on, now and as they come",
  tag,
  scope,
  params: ByPid,
  body: MonitorRequest,
  response: PidMessage,
  errors: [422, 429, 503],
});

export const stopPortMonitor = endpoint({
  method: "DELETE",
  path: "/network/process/:pid/monitor",
  summary: "Stop telling of the process's ports",
  tag,
  scope,
  params: ByPid,
  response: PidMessage,
  errors: [422],
});
