// One row about the installation itself: which sealing key its secrets were sealed with, and how far it has come.
import type { Generated } from "kysely";

export type InstallationTable = {
  id: 1;
  seal_key_id: string;
  /** Needed, too, until everything is sealed with the other. */
  previous_seal_key_id: string | null;
  created_at: string;
  /** Goes up with every pass of the reconciler. */
  generation: Generated<number>;
};
