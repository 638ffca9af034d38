// Renders an OpenAPI document as one page to read: without scripts, so that it can be served from any sandbox's address.
import type { Document } from "../../contract/openapi.ts";

type Parameter = { name: string; in: string; required?: boolean; description?: string; schema: object };
type Content = { content?: Record<string, { schema: unknown }> };
type OperationObject = {
  summary: string;
  tags: string[];
  parameters: Parameter[];
  requestBody?: Content;
  responses: Record<string, { description: string } & Content>;
};

const style = `body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}
h2{margin-top:2.5rem;border-bottom:1px solid #ccc}code,pre{font:14px/1.4 ui-monospace,monospace}pre{overflow:auto;background:#f4f4f4;padding:.75rem}
details{margin:.5rem 0;border:1px solid #ddd;border-radius:4px;padding:.4rem .75rem}summary{cursor:pointer}b{display:inline-block;min-width:4.5rem}
table{border-collapse:collapse}td{padding:.15rem 1rem .15rem 0;vertical-align:top}
@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#161616}pre{background:#242424}details{border-color:#444}}`;

export function referencePage(document: Document): string {
  const { info, tags } = document as unknown as {
    info: { title: string; description: string };
    tags: { name: string; description: string }[];
  };
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation: operation as OperationObject })),
  );
  const sections = tags.map(({ name, description }) => {
    const own = operations.filter(({ operation }) => operation.tags.includes(name));
    return `<h2>${escapeHtml(name)}</h2><p>${escapeHtml(description)}</p>${own.map(renderOperation).join("")}`;
  });
  const schemas = Object.entries(document.components.schemas).map(
    ([name, schema]) => `<h3 id="${escapeHtml(name)}">${escapeHtml(name)}</h3>${renderJson(schema)}`,
  );
  return (
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">` +
    `<title>${escapeHtml(info.title)}</title><style>${style}</style></head><body><h1>${escapeHtml(info.title)}</h1>` +
    `<p>${escapeHtml(info.description)}</p><p>The same for programs: <a href="openapi.json">openapi.json</a></p>` +
    `${sections.join("")}${schemas.length > 0 ? `<h2>Schemas</h2>${schemas.join("")}` : ""}</body></html>\n`
  );
}

function renderOperation({ path, method, operation }: { path: string; method: string; operation: OperationObject }) {
  const { summary, parameters, requestBody, responses } = operation;
  const rows = parameters.map(
    ({ name, in: place, required, description = "", schema }) =>
      `<tr><td><code>${escapeHtml(name)}</code></td><td>${escapeHtml(place)}${required ? ", required" : ""}</td>` +
      `<td>${escapeHtml(description)} <code>${escapeHtml(JSON.stringify(schema))}</code></td></tr>`,
  );
  const answers = Object.entries(responses).map(
    ([status, answer]) => `<p><code>${status}</code> ${escapeHtml(answer.description)}</p>${renderContent(answer)}`,
  );
  return (
    `<details><summary><b>${method.toUpperCase()}</b> <code>${escapeHtml(path)}</code> ${escapeHtml(summary)}</summary>` +
    `${rows.length > 0 ? `<table>${rows.join("")}</table>` : ""}` +
    `${requestBody ? `<p>Body</p>${renderContent(requestBody)}` : ""}${answers.join("")}</details>`
  );
}

function renderContent({ content = {} }: Content): string {
  return Object.values(content)
    .map(({ schema }) => renderJson(schema))
    .join("");
}

function renderJson(value: unknown): string {
  return `<pre>${escapeHtml(JSON.stringify(value, null, 2))}</pre>`;
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
