// A version of a volume template: one archive, awaited, usable or refused.
import type { VolumeTemplateVersionStatus } from "../../../contract/volume-template.ts";

export type VolumeTemplateVersionsTable = {
  workspace_id: string;
  template_id: string;
  name: string;
  /** Another one each time the version is awaited anew: upload URLs are bound to it. */
  version_id: string;
  /** 1 when the platform made up the name. */
  numbered: number;
  status: VolumeTemplateVersionStatus;
  /** Why it is FAILED. */
  message: string | null;
  /** The object store the upload URL leads to, and later the object is in. */
  bucket: string;
  /** What the archive is kept as, exactly while READY. */
  object_key: string | null;
  /** Bytes of the archive; 0 until READY. */
  content_size: number;
  created_at: string;
  uploaded_at: string | null;
  /** When the newest upload URL ends. */
  awaited_until: string;
};
