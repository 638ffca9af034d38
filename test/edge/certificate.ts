// A self-signed certificate for this machine, made for one test.
import { generateKeyPairSync, sign } from "node:crypto";

export type Certificate = { cert: string; key: string };

export type CertificateOptions = { name?: string; expiresAt?: Date };

/** For `localhost` and 127.0.0.1 (X.509 in DER, RFC 5280). */
export function makeCertificate({
  name = "localhost",
  expiresAt = new Date(Date.now() + 3_600_000),
}: CertificateOptions = {}): Certificate {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const algorithm = sequence(objectId("2a8648ce3d040302"));
  const subject = sequence(element(0x31, sequence(objectId("550403"), element(0x0c, Buffer.from(name)))));
  const names = sequence(element(0x82, Buffer.from("localhost")), element(0x87, Buffer.from([127, 0, 0, 1])));
  const authority = sequence(element(0x01, Buffer.from([0xff])));
  const body = sequence(
    element(0xa0, element(0x02, Buffer.from([2]))),
    element(0x02, Buffer.from([1])),
    algorithm,
    subject,
    sequence(time(new Date(expiresAt.getTime() - 86_400_000)), time(expiresAt)),
    subject,
    publicKey.export({ type: "spki", format: "der" }),
    element(
      0xa3,
      sequence(
        sequence(objectId("551d11"), element(0x04, names)),
        sequence(objectId("551d13"), element(0x04, authority)),
      ),
    ),
  );
  const signature = element(0x03, Buffer.concat([Buffer.from([0]), sign("sha256", body, privateKey)]));
  const der = sequence(body, algorithm, signature).toString("base64");
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${der.replace(/.{64}/g, "$&\n")}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: "pkcs8", format: "pem" }) as string,
  };
}

function element(tag: number, content: Buffer): Buffer {
  const { length } = content;
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}

function sequence(...parts: Buffer[]): Buffer {
  return element(0x30, Buffer.concat(parts));
}

function objectId(hex: string): Buffer {
  return element(0x06, Buffer.from(hex, "hex"));
}

function time(date: Date): Buffer {
  return element(0x18, Buffer.from(`${date.toISOString().slice(0, 19).replace(/\D/g, "")}Z`));
}
