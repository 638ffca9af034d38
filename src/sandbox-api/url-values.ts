// Reads what a URL carried as text by what its schema says it stands for.
import type { TSchema } from "typebox";
import { Value } from "typebox/value";

/** A whole number is its digits alone: what `1.5` or `true` could be taken for is not what was asked. An empty one is left out. */
export function readUrlValues(schema: TSchema, texts: object): Record<string, unknown> {
  const { properties = {} } = schema as { properties?: Record<string, TSchema & { type?: string }> };
  const read: Record<string, unknown> = {};
  for (const [name, text] of Object.entries(texts) as [string, unknown][]) {
    const member = Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (member === undefined || (member.type === "integer" && text === "")) continue;
    if (member.type !== "integer") read[name] = Value.Convert(member, text);
    else read[name] = typeof text === "string" && /^-?\d{1,16}$/.test(text) ? Number(text) : text;
  }
  return read;
}
