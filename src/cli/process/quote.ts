// Turns an argument list into the one command text that the sandbox API takes, so that its shell sees exactly those arguments.

const plain = /^[A-Za-z0-9_@%+:,./-]+$/;
const reserved = /^(?:if|then|elif|else|fi|do|done|case|esac|while|until|for|in|function|select|time|coproc)$/;

/** Quotes for a POSIX shell; every byte reaches the program as it is, nothing is expanded. */
export function quoteArguments(args: readonly string[]): string {
  return args
    .map((arg, index) => (plain.test(arg) && !(index === 0 && reserved.test(arg)) ? arg : quote(arg)))
    .join(" ");
}

function quote(arg: string): string {
  return `'${arg.replaceAll("'", `'\\''`)}'`;
}
