// An instance as the sandbox API sees it: directories, environment, guest and the holds that keep it awake.
import { join } from "node:path";
import type { SealKey } from "../../core/seal.ts";
import type { Guest, InitUpgrade, Machine } from "../../sandbox-api/machine.ts";
import type { ResolvedImage } from "../images/images.ts";
import type { Instance } from "./instance.ts";

export class InstanceMachine implements Machine {
  readonly instanceId: string;
  readonly workspace: string;
  readonly sandboxName: string;
  readonly stateDir: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly workingDir: string;
  readonly homeDir: string;
  readonly searchProgram: string;
  readonly guest: Guest;
  readonly stateKey: SealKey;
  readonly #instance: Instance;

  constructor(
    instance: Instance,
    {
      environment,
      searchProgram,
      stateKey,
    }: { environment: Readonly<Record<string, string>>; searchProgram: string; stateKey: SealKey },
  ) {
    const { claim, image } = instance.record;
    if (claim === undefined) throw new Error("an instance without a claim serves no sandbox");
    this.instanceId = claim.instanceId;
    this.workspace = claim.workspace;
    this.sandboxName = claim.sandboxName;
    this.stateDir = join(instance.dir, "state");
    this.environment = environment;
    this.workingDir = image.workingDir;
    this.homeDir = image.homeDir;
    this.searchProgram = searchProgram;
    this.guest = instance.guest;
    this.stateKey = stateKey;
    this.#instance = instance;
  }

  get upgradeCount(): number {
    return this.#instance.record.upgradeCount ?? 0;
  }

  get startCount(): number {
    return this.#instance.record.startCount ?? 0;
  }

  get initDigest(): string {
    return this.#instance.record.initDigest;
  }

  upgrade(binary: Buffer): Promise<InitUpgrade> {
    return this.#instance.upgrade(binary);
  }

  holdAwake(): Disposable {
    return this.#instance.acquire();
  }

  touch(): void {
    this.#instance.touch();
  }

  get isAsleep(): boolean {
    return this.#instance.state === "asleep" || this.#instance.state === "dead";
  }
}

/** What every process of a sandbox finds in its environment: the image's variables, then the caller's. */
export function sandboxEnvironment(image: ResolvedImage, own: Record<string, string>): Record<string, string> {
  return {
    PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    HOME: image.homeDir,
    LANG: "C.UTF-8",
    TERM: "xterm-256color",
    ...image.environment,
    ...own,
  };
}
