// Why a request to the outside did not succeed, for callers of this folder to put into words of their own.

export type OutgoingReason =
  /** The URL is not one that may be asked, whatever its host turns out to be. */
  | "invalid_url"
  /** The name has no address, or none that is public. Which of the two is not told apart: it would describe the network inside. */
  | "no_public_address"
  | "unreachable"
  | "tls"
  | "timeout"
  | "too_large"
  | "encoding"
  | "redirect"
  /** More requests than one exchange may need. */
  | "too_many";

/** `message` completes "<somebody> ..." and carries neither a credential nor an address. `cause` is for the log. */
export class OutgoingError extends Error {
  override readonly name = "OutgoingError";
  readonly reason: OutgoingReason;

  constructor(reason: OutgoingReason, message: string, cause?: unknown) {
    super(message, { cause });
    this.reason = reason;
  }
}
