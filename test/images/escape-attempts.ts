// Layers that try to write, delete or change something outside the root they are unpacked into.
import type { TarEntry } from "./tar.ts";

const ordinary: TarEntry = { path: "ordinary", content: "here" };

/** How it is tried, and the layers that do; `outside` is a directory of the machine that holds `file`. */
export const escapeAttempts: [string, (outside: string) => TarEntry[][]][] = [
  [
    "by a path with ..",
    (outside) => [
      [
        { path: "../../catnap-evil", content: "x" },
        { path: `../../../../../../../..${outside}/file`, content: "x" },
      ],
    ],
  ],
  [
    "by an absolute path",
    (outside) => [
      [
        { path: `${outside}/file`, content: "x" },
        { path: "/catnap-evil", content: "x" },
      ],
    ],
  ],
  [
    "through an absolute link",
    (outside) => [
      [
        { path: "out", type: "symlink", linkTo: outside },
        { path: "out/file", content: "x" },
        { path: "out/new", content: "x" },
      ],
    ],
  ],
  [
    "through a link of a lower layer",
    (outside) => [[{ path: "out", type: "symlink", linkTo: outside }], [{ path: "out/file", content: "x" }]],
  ],
  [
    "through a relative link",
    () => [
      [
        { path: "out", type: "symlink", linkTo: "../../../../../../../../../../tmp" },
        { path: "out/catnap-evil", content: "x" },
      ],
    ],
  ],
  [
    "through a chain of links",
    () => [
      [
        { path: "a", type: "symlink", linkTo: "b" },
        { path: "b", type: "symlink", linkTo: ".." },
        { path: "a/../../../../../tmp/catnap-evil", content: "x" },
      ],
    ],
  ],
  [
    "through a link to the machine's root",
    () => [
      [
        { path: "out", type: "symlink", linkTo: "/proc/1/root" },
        { path: "out/tmp/catnap-evil", content: "x" },
      ],
    ],
  ],
  [
    "through a hard link",
    (outside) => [
      [
        { path: "hard", type: "hardlink", linkTo: `${outside}/file` },
        { path: "hard", content: "x" },
      ],
    ],
  ],
  [
    "through a hard link with ..",
    (outside) => [
      [
        { path: "hard", type: "hardlink", linkTo: `../../../../../..${outside}/file` },
        { path: "hard", content: "x" },
      ],
    ],
  ],
  [
    "through a hard link to a link",
    (outside) => [
      [
        { path: "s", type: "symlink", linkTo: `${outside}/file` },
        { path: "h", type: "hardlink", linkTo: "s" },
        { path: "h", content: "x" },
      ],
    ],
  ],
  [
    "by making its root a link",
    (outside) => [
      [
        { path: "./", type: "symlink", linkTo: outside },
        { path: "new", content: "x" },
      ],
    ],
  ],
  [
    "by making its root a file",
    () => [
      [
        { path: ".", content: "x" },
        { path: "new", content: "x" },
      ],
    ],
  ],
  ["by deleting with ..", (outside) => [[ordinary], [{ path: `../../../../../../..${outside}/.wh.file` }]]],
  [
    "by deleting through a link",
    (outside) => [[{ path: "out", type: "symlink", linkTo: outside }], [{ path: "out/.wh.file" }]],
  ],
  [
    "by emptying through a link",
    (outside) => [[{ path: "out", type: "symlink", linkTo: outside }], [{ path: "out/.wh..wh..opq" }]],
  ],
  ["by deleting its own parent", () => [[ordinary], [{ path: ".wh.." }, { path: ".wh..." }, { path: ".wh." }]]],
  [
    "by changing the mode through a link",
    (outside) => [
      [
        { path: "out", type: "symlink", linkTo: outside },
        { path: "out", type: "directory", mode: 0o777 },
      ],
    ],
  ],
];
