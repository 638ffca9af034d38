// Status changes of a sandbox, numbered from 1.
export type SandboxEventsTable = {
  sandbox_id: string;
  seq: number;
  time: string;
  type: string;
  status: string;
  message: string;
};
