// A volume template; its archives are its versions.
export type VolumeTemplatesTable = {
  workspace_id: string;
  name: string;
  id: string;
  display_name: string | null;
  external_id: string | null;
  /** JSON object, or null. */
  labels: string | null;
  default_size_mb: number | null;
  description: string | null;
  /** The last number given to a version that was asked for without a name. */
  versions_numbered: number;
  created_at: string;
  updated_at: string;
  created_by: string;
  updated_by: string;
};
