// One row about the installation itself: which sealing key its secrets were sealed with.
export type InstallationTable = {
  id: 1;
  seal_key_id: string;
  created_at: string;
};
