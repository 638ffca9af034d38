// Where this machine keeps its cgroup controllers: everything on v2, everything on v1, or v1 with a unified hierarchy beside it.

/** Controllers that sandboxes are limited or frozen with. */
export type ControllerName = "memory" | "cpu" | "pids" | "freezer";

export type Controller = { version: 1 | 2; mountPoint: string };

export type CgroupLayout = {
  mode: "unified" | "hybrid" | "legacy" | "none";
  /** Mount point of the v2 hierarchy, which can freeze and kill even where it has no controllers. */
  unified: string | undefined;
  controllers: Partial<Record<ControllerName, Controller>>;
  /** Every mounted hierarchy: a runtime makes a group of a sandbox in each of them. */
  hierarchies: string[];
};

const controllerNames: readonly ControllerName[] = ["memory", "cpu", "pids", "freezer"];

/**
 * Reads the text of /proc/self/mountinfo. `readControllers` gives the content of a v2 mount's `cgroup.controllers`. A hierarchy
 * that is mounted twice counts once, by its first mount.
 */
export function detectCgroups(mountinfo: string, readControllers: (mountPoint: string) => string): CgroupLayout {
  const layout: CgroupLayout = { mode: "none", unified: undefined, controllers: {}, hierarchies: [] };
  const seen = new Set<string>();
  let legacy = false;
  for (const line of mountinfo.split("\n")) {
    const mount = parseCgroupMount(line);
    if (mount === undefined || seen.has(mount.device)) continue;
    seen.add(mount.device);
    layout.hierarchies.push(mount.mountPoint);
    const version = mount.type === "cgroup2" ? 2 : 1;
    if (version === 2) layout.unified = mount.mountPoint;
    else legacy = true;
    const names = version === 2 ? readControllers(mount.mountPoint).trim().split(" ") : mount.options;
    for (const name of controllerNames) {
      // Freezing is part of every v2 group and preferred there: a frozen group can still be killed.
      const offers = names.includes(name) || (version === 2 && name === "freezer");
      const better = layout.controllers[name] === undefined || (version === 2 && name === "freezer");
      if (offers && better) layout.controllers[name] = { version, mountPoint: mount.mountPoint };
    }
  }
  if (layout.unified !== undefined) layout.mode = legacy ? "hybrid" : "unified";
  else if (legacy) layout.mode = "legacy";
  return layout;
}

type CgroupMount = { device: string; mountPoint: string; type: string; options: string[] };

/** A line is `id parent major:minor root mountpoint options [tags] - type source superoptions`. */
function parseCgroupMount(line: string): CgroupMount | undefined {
  const [before, after] = line.split(" - ");
  const [type, , superOptions] = after?.split(" ") ?? [];
  if (before === undefined || (type !== "cgroup" && type !== "cgroup2")) return undefined;
  const fields = before.split(" ");
  return { device: fields[2]!, mountPoint: fields[4]!, type, options: superOptions?.split(",") ?? [] };
}
