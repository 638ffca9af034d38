// The paths of an archive as a tree: each is one thing, inside the volume and within bounds.
import { showName, TarRefusal } from "./refusal.ts";

/** What ext4 and the like allow for one name. */
const segmentMaxBytes = 255;
const pathMaxBytes = 2_048;
const depthMax = 64;

type Node = { kind: "file" | "directory"; children: Map<string, Node> | undefined };

export class TarTree {
  readonly #root: Node = { kind: "directory", children: undefined };
  readonly #nodesMax: number;
  #nodes = 0;

  /** `nodesMax` counts directories that are only implied by the paths below them, too. */
  constructor(nodesMax: number) {
    this.#nodesMax = nodesMax;
  }

  add(path: string, kind: Node["kind"]): void {
    const segments = splitPath(path);
    if (segments.length === 0) {
      if (kind === "directory") return;
      throw new TarRefusal(`the entry ${showName(path)} is a file and names the root`);
    }
    if (kind === "file" && path.endsWith("/"))
      throw new TarRefusal(`the file ${showName(path)} is named like a directory`);
    let node = this.#root;
    for (const [index, segment] of segments.entries()) {
      if (node.kind === "file") throw new TarRefusal(`${showName(path)} is below a path that is a file`);
      const wanted = index === segments.length - 1 ? kind : "directory";
      const known = node.children?.get(segment);
      if (known !== undefined && index === segments.length - 1 && (known.kind !== wanted || wanted === "file")) {
        const what = known.kind === wanted ? "occurs twice" : "is both a file and a directory";
        throw new TarRefusal(`${showName(path)} ${what}`);
      }
      node = known ?? this.#append(node, segment, wanted);
    }
  }

  #append(parent: Node, segment: string, kind: Node["kind"]): Node {
    if (++this.#nodes > this.#nodesMax) {
      throw new TarRefusal(`the archive has more than ${this.#nodesMax} files and directories`);
    }
    const node: Node = { kind, children: undefined };
    parent.children ??= new Map();
    parent.children.set(segment, node);
    return node;
  }
}

/** Without empty and `.` segments. */
function splitPath(path: string): string[] {
  if (path === "") throw new TarRefusal("an entry has no name");
  if (path.startsWith("/")) throw new TarRefusal(`the path ${showName(path)} is absolute`);
  if (Buffer.byteLength(path) > pathMaxBytes) {
    throw new TarRefusal(`the path ${showName(path)} has more than ${pathMaxBytes} bytes`);
  }
  const segments = path.split("/").filter((segment) => segment !== "" && segment !== ".");
  if (segments.includes("..")) throw new TarRefusal(`the path ${showName(path)} has a .. in it`);
  if (segments.length > depthMax) throw new TarRefusal(`the path ${showName(path)} is more than ${depthMax} deep`);
  if (segments.some((segment) => Buffer.byteLength(segment) > segmentMaxBytes)) {
    throw new TarRefusal(`the path ${showName(path)} has a name of more than ${segmentMaxBytes} bytes`);
  }
  return segments;
}
