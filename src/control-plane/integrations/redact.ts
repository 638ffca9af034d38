// Takes a credential out of what a service says about it: services quote keys they refuse, whole or in part.

const mark = "[redacted]";
/** Parts of a credential this long are recognized; shorter ones reveal little, and would be found in ordinary words. */
const partLength = 5;
const messageMaxLength = 500;

/** One line without control characters, without any part of the secret, and without what is already partly starred out. */
export function redactMessage(message: string, secret: string | undefined): string {
  // The end of a long message is cut before, so that no part of a secret is cut out of recognition.
  const line = message
    .slice(0, messageMaxLength * 2)
    .replaceAll(/[\p{C}\s]+/gu, " ")
    .trim();
  const starred = line.replaceAll(/\S*\*{2,}\S*/g, mark);
  return (secret === undefined ? starred : removeParts(starred, secret)).slice(0, messageMaxLength);
}

/** Whether a text carries the credential, as it is or in a form it takes in URLs, headers and JSON. */
export function carriesSecret(text: string, secret: string | undefined): boolean {
  if (secret === undefined || secret === "") return false;
  const forms = [
    secret,
    encodeURIComponent(secret),
    Buffer.from(secret).toString("base64"),
    JSON.stringify(secret).slice(1, -1),
  ];
  return forms.some((form) => text.includes(form));
}

function removeParts(text: string, secret: string): string {
  const length = Math.min(partLength, secret.length);
  if (length === 0) return text;
  const parts = new Set<string>();
  for (const form of [secret, encodeURIComponent(secret), Buffer.from(secret).toString("base64")]) {
    for (let index = 0; index + length <= form.length; index++) parts.add(form.slice(index, index + length));
  }
  let redacted = "";
  let hiddenUntil = 0;
  for (let index = 0; index < text.length; index++) {
    if (parts.has(text.slice(index, index + length))) {
      if (index >= hiddenUntil) redacted += mark;
      hiddenUntil = index + length;
    }
    if (index >= hiddenUntil) redacted += text[index];
  }
  return redacted;
}
