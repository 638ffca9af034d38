// What the sandboxes' network can be told.
export type NetworkSettings = {
  /** IPv4 range the sandboxes' addresses come from, e.g. `10.201.0.0/16`; its first address is every sandbox's gateway. */
  cidr: string;
  /** Name servers sandboxes use; the machine's own unless given. */
  resolvers?: readonly string[];
  /** Connections one sandbox may have open through the machine at a time. */
  connectionsMax?: number;
};

export const defaultConnectionsMax = 4_096;
