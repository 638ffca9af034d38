// Globs as file names are matched by them, in time that grows with the product of their lengths and no more: callers choose both pattern and name.

/** `*` and `?` stay within a segment, `**` does not; `[abc]`, `[a-z]`, `[!a]` and `\` as shells have them. */
export type Glob = { matches(path: string): boolean };

type Token =
  | { kind: "one"; accepts: (character: string) => boolean }
  /** `endsSegment`: what follows it begins a segment. */
  | { kind: "many"; crossesSlashes: boolean; endsSegment: boolean };

/** A pattern without a slash is for the last segment of a path, another for the whole. */
export function compileGlob(pattern: string): Glob {
  const isForName = !pattern.includes("/");
  const accepts = compile(pattern.replace(/^\.?\//, ""));
  return { matches: (path) => accepts(isForName ? path.slice(path.lastIndexOf("/") + 1) : path) };
}

/** Most patterns are a plain name or a `*` and an ending. */
function compile(pattern: string): (text: string) => boolean {
  if (!/[*?[\\]/.test(pattern)) return (text) => text === pattern;
  const ending = /^\*([^*?[\\/]+)$/.exec(pattern)?.[1];
  if (ending !== undefined) return (text) => text.endsWith(ending) && !text.slice(0, -ending.length).includes("/");
  const tokens = parse(pattern);
  return (text) => matches(tokens, text);
}

function parse(pattern: string): Token[] {
  const tokens: Token[] = [];
  const characters = [...pattern];
  for (let at = 0; at < characters.length; at++) {
    const character = characters[at]!;
    if (character === "*") {
      const crossesSlashes = characters[at + 1] === "*";
      while (characters[at + 1] === "*") at++;
      // `**/` also stands for no directory at all.
      const endsSegment = crossesSlashes && characters[at + 1] === "/";
      if (endsSegment) at++;
      tokens.push({ kind: "many", crossesSlashes, endsSegment });
    } else if (character === "?") {
      tokens.push({ kind: "one", accepts: (other) => other !== "/" });
    } else if (character === "[" && characters.indexOf("]", at + 2) !== -1) {
      const end = characters.indexOf("]", at + 2);
      tokens.push({ kind: "one", accepts: parseSet(characters.slice(at + 1, end)) });
      at = end;
    } else {
      const literal = character === "\\" && at + 1 < characters.length ? characters[++at]! : character;
      tokens.push({ kind: "one", accepts: (other) => other === literal });
    }
  }
  return tokens;
}

function parseSet(characters: readonly string[]): (character: string) => boolean {
  const isNegated = characters[0] === "!" || characters[0] === "^";
  const members = isNegated ? characters.slice(1) : characters;
  const ranges: [string, string][] = [];
  for (let at = 0; at < members.length; at++) {
    const isRange = members[at + 1] === "-" && at + 2 < members.length;
    ranges.push([members[at]!, isRange ? members[at + 2]! : members[at]!]);
    if (isRange) at += 2;
  }
  return (character) =>
    character !== "/" && ranges.some(([low, high]) => character >= low && character <= high) !== isNegated;
}

/** Which tokens may come next is all that is kept while the text is read once. */
function matches(tokens: readonly Token[], text: string): boolean {
  let states = new Uint8Array(tokens.length + 1);
  let next = new Uint8Array(tokens.length + 1);
  states[0] = 1;
  follow(tokens, states, true);
  for (const character of text) {
    next.fill(0);
    let isAlive = false;
    // By index: this is the loop that a hostile pattern runs.
    for (let state = 0; state < tokens.length; state++) {
      if (states[state] === 0) continue;
      const token = tokens[state]!;
      const to = token.kind === "one" ? state + 1 : state;
      if (!(token.kind === "one" ? token.accepts(character) : token.crossesSlashes || character !== "/")) continue;
      next[to] = 1;
      isAlive = true;
    }
    if (!isAlive) return false;
    follow(tokens, next, character === "/");
    [states, next] = [next, states];
  }
  return states[tokens.length] === 1;
}

/** A `many` may also stand for nothing. */
function follow(tokens: readonly Token[], states: Uint8Array, beginsSegment: boolean): void {
  for (let state = 0; state < tokens.length; state++) {
    const token = tokens[state]!;
    if (states[state] === 1 && token.kind === "many" && (beginsSegment || !token.endsSegment)) states[state + 1] = 1;
  }
}
