// Where builds of the init come from; the platform implements it, because only it may ask the outside.

export type InitSource = {
  /** The version of the build that the platform ships; `latest` means it, too. */
  readonly version: string;
  /** The build that the platform ships. */
  readShipped(): Promise<Buffer>;
  /** Throws `invalid_request` for a URL that the platform may not ask. */
  requireUrl(url: string): void;
  /** The content there; rejects with an AppError, also when there is more of it. */
  download(url: string, limits: { maxBytes: number }): Promise<Buffer>;
};
