// A scripted host in memory: the boundary of the control plane, with switches for what a real one may do wrong.
import type { Host, HostImage, InfrastructureError, InstanceRequest, InstanceStatus } from "../../src/contract/host.ts";
import { AppError } from "../../src/core/errors.ts";

export type FakeHost = Host & {
  /** Every request to create, in order, also those that failed. */
  readonly requests: InstanceRequest[];
  readonly instances: Map<string, InstanceRequest>;
  readonly deletions: string[];
  /** Runs inside each creation, before the instance exists; throw or wait in it. */
  onCreate: (request: InstanceRequest, signal: AbortSignal) => Promise<void> | void;
  onDelete: (instanceId: string) => Promise<void> | void;
  errors: InfrastructureError[];
  /** What is on the host; add pulled ones. */
  images: HostImage[];
  /** Complete names of pulled images that the host will not remove. */
  usedImages: Set<string>;
};

export const knownImages = ["blaxel/base-image:latest", "blaxel/py-app:latest"];

export function createFakeHost(): FakeHost {
  const instances = new Map<string, InstanceRequest>();
  const host: FakeHost = {
    requests: [],
    instances,
    deletions: [],
    onCreate: () => undefined,
    onDelete: () => undefined,
    errors: [],
    images: knownImages.map((name) => ({
      name,
      kind: "platform",
      description: `what ${name} is`,
      updatedAt: "2026-01-02T03:04:05.678Z",
      sizeBytes: 1_000,
    })),
    usedImages: new Set(),
    async createInstance(request, { signal, timing }) {
      host.requests.push(request);
      if (host.findImage(request.image) === undefined) {
        throw new AppError("invalid_request", `There is no image ${request.image}.`, {
          details: { code: "INVALID_IMAGE" },
        });
      }
      await host.onCreate(request, signal);
      timing?.add("claim", 0.1);
      instances.set(request.instanceId, request);
    },
    async deleteInstance(instanceId) {
      await host.onDelete(instanceId);
      host.deletions.push(instanceId);
      instances.delete(instanceId);
    },
    instanceStatus(instanceId): InstanceStatus | undefined {
      if (!instances.has(instanceId)) return undefined;
      return { state: "RUNNING", lastUsedAt: "2026-01-02T03:04:05.678Z", errors: host.errors };
    },
    listInstances: () =>
      [...instances.values()].map(({ instanceId, workspace, sandboxName, image }) => ({
        instanceId,
        workspace,
        sandboxName,
        image: host.findImage(image)?.name ?? image,
      })),
    listImages: () => knownImages,
    findImage: (name) => host.images.find((image) => image.name === name || image.name === `docker.io/library/${name}`),
    describeImages: () => Promise.resolve([...host.images]),
    removeImage(name) {
      const index = host.images.findIndex((image) => image.name === name && image.kind === "pulled");
      if (index < 0) return Promise.resolve("unknown");
      if (host.usedImages.has(name)) return Promise.resolve("in_use");
      host.images.splice(index, 1);
      return Promise.resolve("removed");
    },
    resealInstances: () => Promise.resolve({ resealed: 0, unreadable: 0 }),
    handle: (_instanceId, _request, response) => {
      response.writeHead(501).end();
    },
    upgrade: (_instanceId, _request, socket) => {
      socket.destroy();
    },
  };
  return host;
}
