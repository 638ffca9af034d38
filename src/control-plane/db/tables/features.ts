// What the operator has set for a feature in a workspace; it wins over the features file.
export type FeaturesTable = {
  workspace_id: string;
  name: string;
  enabled: number;
  variant: string | null;
  /** JSON object, or null. */
  payload: string | null;
  updated_at: string;
};
