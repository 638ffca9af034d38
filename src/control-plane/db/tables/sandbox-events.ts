// Status changes of a sandbox, each numbered by the revision of the record that it came with.
export type SandboxEventsTable = {
  sandbox_id: string;
  seq: number;
  time: string;
  type: string;
  status: string;
  message: string;
};
