// How much a workspace may have. An account is a workspace here: its id or its name stands for it.
import Type, { type Static } from "typebox";
import { endpoint } from "./endpoint.ts";

/** `memory` is megabytes of all sandboxes that hold a name; `terminatedRetention` is seconds (spec 2.7). */
export const quotaTypes = ["sandboxes", "memory", "terminatedRetention"] as const;
export type QuotaType = (typeof quotaTypes)[number];

export const Quota = Type.Object({ resourceType: Type.Enum(quotaTypes), value: Type.Integer() }, { title: "Quota" });
export type Quota = Static<typeof Quota>;

export const listQuotas = endpoint({
  method: "GET",
  path: "/quotas/account/:accountId",
  summary: "How much the workspace may have",
  tag: "quotas",
  scope: "workspaces:get",
  params: Type.Object({ accountId: Type.String({ maxLength: 63 }) }),
  response: Type.Array(Quota),
});
