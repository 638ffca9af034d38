// Plain-text tables for people: columns as wide as their content, numbers to the right, nothing a terminal could act on.
import { printable } from "./failure.ts";

export type Column = { title: string; align?: "left" | "right" };

/** Lines with two spaces between columns; titles are left out when all are empty. */
export function formatTable(columns: readonly Column[], rows: readonly (readonly string[])[]): string {
  const clean = rows.map((row) => row.map((cell) => printable(cell).replace(/[\n\t]/g, " ")));
  const titles = columns.map(({ title }) => title);
  const lines = titles.every((title) => title === "") ? clean : [titles, ...clean];
  const widths = columns.map((_, index) => Math.max(0, ...lines.map((line) => (line[index] ?? "").length)));
  return lines
    .map((line) => {
      const cells = columns.map(({ align }, index) => {
        const cell = line[index] ?? "";
        return align === "right" ? cell.padStart(widths[index]!) : cell.padEnd(widths[index]!);
      });
      return `${cells.join("  ").trimEnd()}\n`;
    })
    .join("");
}
