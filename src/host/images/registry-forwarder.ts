// Runs inside a pull's jail, which has no network: listens on the jail's own loopback, hands every connection to the gate's unix
// socket, and runs the pulling program. A listed registry on loopback gets its own port, since programs use no proxy for loopback.
import { spawn } from "node:child_process";
import { connect, createServer, type Server, type Socket } from "node:net";

type Task = {
  gateSocketPath: string;
  proxyPort: number;
  direct: { port: number; target: string }[];
  command: string[];
};

const { gateSocketPath, proxyPort, direct, command } = JSON.parse(process.argv[2] ?? "") as Task;

function join(client: Socket, gate: Socket): void {
  client.pipe(gate);
  gate.pipe(client);
  client.on("error", () => undefined).on("close", () => gate.destroy());
  gate.on("error", () => undefined).on("close", () => client.destroy());
}

function listen(port: number, serve: (client: Socket) => void): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer(serve);
    server.once("error", reject).listen(port, "127.0.0.1", () => resolve(server));
  });
}

/** Asks the gate for a way to `target` and joins the two once it has agreed. */
function joinDirect(client: Socket, target: string): void {
  const gate = connect(gateSocketPath);
  const agreed = "HTTP/1.1 200 Connection Established\r\n\r\n";
  let answer = Buffer.alloc(0);
  gate.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`);
  const read = (chunk: Buffer): void => {
    answer = Buffer.concat([answer, chunk]);
    if (answer.length < agreed.length) return;
    gate.off("data", read).pause();
    if (answer.toString("latin1", 0, agreed.length) !== agreed) return void client.destroy();
    gate.unshift(answer.subarray(agreed.length));
    join(client, gate);
  };
  gate.on("data", read);
  gate.on("error", () => undefined).on("close", () => client.destroy());
  client.on("error", () => gate.destroy());
}

const servers = [
  await listen(proxyPort, (client) => join(client, connect(gateSocketPath))),
  ...(await Promise.all(direct.map(({ port, target }) => listen(port, (client) => joinDirect(client, target))))),
];
const child = spawn(command[0]!, command.slice(1), { stdio: ["ignore", "inherit", "inherit"] });
child.on("error", () => process.exit(127));
child.on("exit", (code) => {
  for (const server of servers) server.close();
  process.exit(code ?? 128);
});
