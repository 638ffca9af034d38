// What a driver can do, as data: callers ask these values, never which driver it is.
export type Capabilities = {
  /** Processes are isolated from the host and from each other. */
  isolation: boolean;
  /** Memory, CPU and process limits are enforced. */
  limits: boolean;
  /** Instances have a network of their own. */
  network: boolean;
};
