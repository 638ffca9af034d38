// The terminal's page as one document: it loads nothing, and runs no script but those it consists of.
import { hash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";

const require = createRequire(import.meta.url);
const own = (name: string): string => join(import.meta.dirname, "page", name);

const styles = () => [require.resolve("@xterm/xterm/css/xterm.css"), own("terminal.css")];
const scripts = () => [
  require.resolve("@xterm/xterm/lib/xterm.js"),
  require.resolve("@xterm/addon-fit/lib/addon-fit.js"),
  own("terminal.js"),
];

export type Visit = {
  /** What the page's connection needs where browsers send no cookie with it. */
  token: string | undefined;
  /** A page of elsewhere led here, or may have: what it says is to be run is not run unasked. */
  isForeign: boolean;
};

export type TerminalPage = {
  html(visit: Visit): string;
  /** The emulator writes its colours into style elements; of scripts, only those of the page are run. */
  contentPolicy: string;
};

let loading: Promise<TerminalPage> | undefined;

/** Read with the first request and kept. */
export function loadTerminalPage(): Promise<TerminalPage> {
  if (loading === undefined) {
    const begun = readPage();
    begun.catch(() => {
      if (loading === begun) loading = undefined;
    });
    loading = begun;
  }
  return loading;
}

async function readPage(): Promise<TerminalPage> {
  const [document, styleTexts, scriptTexts] = await Promise.all([
    readFile(own("terminal.html"), "utf8"),
    readAll(styles()),
    readAll(scripts()),
  ]);
  const [head, body, end] = document.split(/<!-- parts: \w+ -->/) as [string, string, string];
  const before = head + styleTexts.map((text) => `<style>${text}</style>`).join("\n");
  const after = `${body}${scriptTexts.map((text) => `<script>${text}</script>`).join("\n")}${end}`;
  const hashes = scriptTexts.map((text) => `'sha256-${hash("sha256", text, "base64")}'`);
  return {
    html: ({ token, isForeign }) =>
      [
        before,
        formatMeta("preview-token", token),
        formatMeta("opened-by", isForeign ? "elsewhere" : undefined),
        after,
      ].join(""),
    contentPolicy: [
      "default-src 'none'",
      `script-src ${hashes.join(" ")}`,
      "style-src 'unsafe-inline'",
      "connect-src 'self'",
      "base-uri 'none'",
      "form-action 'none'",
      "frame-ancestors 'none'",
    ].join("; "),
  };
}

function readAll(paths: readonly string[]): Promise<string[]> {
  return Promise.all(paths.map((path) => readFile(path, "utf8")));
}

/** Where a script finds it. */
function formatMeta(name: string, content: string | undefined): string {
  if (content === undefined) return "";
  const escaped = content.replaceAll("&", "&amp;").replaceAll('"', "&quot;").replaceAll("<", "&lt;");
  return `\n<meta name="${name}" content="${escaped}" />`;
}
