// All tools of the MCP server, in the order they are listed.
import { codeTools } from "./code-tools.ts";
import { fileTools } from "./file-tools.ts";
import { processTools } from "./process-tools.ts";
import type { Tool } from "./tool.ts";

const tools: readonly Tool[] = [...processTools, ...fileTools, ...codeTools];

export const toolDescriptions = tools.map(({ description }) => description);

const byName = new Map(tools.map((tool) => [tool.description.name, tool]));

export function findTool(name: string): Tool | undefined {
  return byName.get(name);
}
