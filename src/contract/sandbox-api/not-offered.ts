// Operations that clients of this API know and that are answered with the reason why they are not offered here.
import { Type } from "typebox";
import { endpoint } from "../endpoint.ts";

const scope = "sandboxes:control";
const response = Type.Unknown();

export const configureTunnel = endpoint({
  method: "PUT",
  path: "/network/tunnel/config",
  summary: "Configure a WireGuard tunnel (not offered: answers 501)",
  tag: "network",
  scope,
  response,
  errors: [501],
});

export const removeTunnel = endpoint({
  method: "DELETE",
  path: "/network/tunnel",
  summary: "Remove the WireGuard tunnel (not offered: answers 501)",
  tag: "network",
  scope,
  response,
  errors: [501],
});

export const listDriveMounts = endpoint({
  method: "GET",
  path: "/drives/mount",
  summary: "List mounted drives (not offered: answers 501)",
  tag: "drives",
  scope,
  response,
  errors: [501],
});

export const mountDrive = endpoint({
  method: "POST",
  path: "/drives/mount",
  summary: "Mount a drive (not offered: answers 501)",
  tag: "drives",
  scope,
  response,
  errors: [501],
});

export const unmountDrive = endpoint({
  method: "DELETE",
  path: "/drives/mount/*",
  summary: "Unmount a drive (not offered: answers 501)",
  tag: "drives",
  scope,
  response,
  errors: [501],
});

export const applyCodeEdit = endpoint({
  method: "PUT",
  path: "/codegen/fastapply/*",
  summary: "Apply an edit with a model of a third party (no provider is configured: answers 503)",
  tag: "codegen",
  scope,
  response,
  errors: [503],
});

export const rankFiles = endpoint({
  method: "GET",
  path: "/codegen/reranking/*",
  summary: "Rank files with a model of a third party (no provider is configured: answers 503)",
  tag: "codegen",
  scope,
  response,
  errors: [503],
});
