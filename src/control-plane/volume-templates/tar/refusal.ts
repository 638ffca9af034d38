// Why an archive is refused, in words that are safe to show: names inside it are the caller's and are escaped.

export class TarRefusal extends Error {
  override readonly name = "TarRefusal";
}

const shownMax = 120;

/** Quoted, cut, and in printable ASCII only: neither terminals nor readers are led astray by it. */
export function showName(name: string): string {
  const cut = name.length > shownMax ? `${name.slice(0, shownMax)}...` : name;
  return JSON.stringify(cut).replace(
    /[^\x20-\x7e]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
