// A certificate that signs itself, made for one test.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export function makeCertificate(subjectAltName: string): { key: string; cert: string } {
  const dir = mkdtempSync(join(tmpdir(), "catnap-certificate-"));
  try {
    const key = join(dir, "key.pem");
    const cert = join(dir, "cert.pem");
    const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
    const subject = ["-subj", "/CN=test", "-addext", `subjectAltName=${subjectAltName}`];
    const args = ["req", "-x509", "-nodes", "-days", "2", ...curve, ...subject, "-keyout", key, "-out", cert];
    execFileSync("openssl", args, { stdio: "ignore" });
    return { key: readFileSync(key, "utf8"), cert: readFileSync(cert, "utf8") };
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
