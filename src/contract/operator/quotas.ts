// Quotas of a workspace as the operator of the machine sets them.
import Type, { type Static } from "typebox";
import { endpoint } from "../endpoint.ts";
import { Name } from "../metadata.ts";
import { Quota, quotaTypes } from "../quota.ts";

/** What a database's and a program's whole numbers both hold, with room to add. */
const quotaMax = 1_000_000_000_000;

/** `operator`: set over this socket; `installation`: what every workspace gets. */
export const QuotaEntry = Type.Object({ ...Quota.properties, source: Type.Enum(["operator", "installation"]) });
export type QuotaEntry = Static<typeof QuotaEntry>;

const QuotaType = Type.Enum(quotaTypes);
const OneQuota = Type.Object({ workspace: Name, resourceType: QuotaType });

export const listQuotaSettings = endpoint({
  method: "GET",
  path: "/workspaces/:workspace/quotas",
  summary: "List how much a workspace may have, with who says so",
  tag: "operator",
  scope: "admin",
  params: Type.Object({ workspace: Name }),
  response: Type.Array(QuotaEntry),
});

export const setQuota = endpoint({
  method: "PUT",
  path: "/workspaces/:workspace/quotas/:resourceType",
  summary: "Set how much of something a workspace may have; what it has already stays",
  tag: "operator",
  scope: "admin",
  params: OneQuota,
  body: Type.Object({ value: Type.Integer({ minimum: 0, maximum: quotaMax }) }),
  response: QuotaEntry,
});

export const resetQuota = endpoint({
  method: "DELETE",
  path: "/workspaces/:workspace/quotas/:resourceType",
  summary: "Forget what the operator has set: the installation's quota applies again",
  tag: "operator",
  scope: "admin",
  params: OneQuota,
  response: QuotaEntry,
});
