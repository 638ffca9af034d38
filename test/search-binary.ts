// Where tests find the program that searches contents.
import { join } from "node:path";

export const searchBinary = join(import.meta.dirname, `../node_modules/@vscode/ripgrep-linux-${process.arch}/bin/rg`);
