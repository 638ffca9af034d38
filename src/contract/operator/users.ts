// People of the installation as the operator of the machine manages them.
import Type, { type Static } from "typebox";
import { ApiKeyInput, NewApiKey } from "../api-key.ts";
import { endpoint } from "../endpoint.ts";
import { Name } from "../metadata.ts";
import { Email } from "../workspace-user.ts";

const Text = Type.String({
  minLength: 1,
  maxLength: 63,
  pattern: "^[^\\u0000-\\u001f\\u007f]+$",
  rule: "1 to 63 printable characters",
});
const Password = Type.String({ maxLength: 1_024 });

export const OperatorUser = Type.Object({
  id: Type.String(),
  name: Type.String(),
  email: Type.Optional(Type.String()),
  givenName: Type.Optional(Type.String()),
  familyName: Type.Optional(Type.String()),
  hasPassword: Type.Boolean(),
  disabled: Type.Boolean(),
  createdAt: Type.String(),
});
export type OperatorUser = Static<typeof OperatorUser>;

const OneUser = Type.Object({ user: Type.String({ minLength: 1, maxLength: 254 }) });
const tag = "operator";
const scope = "admin";

export const listUsers = endpoint({
  method: "GET",
  path: "/users",
  summary: "List the people of this installation",
  tag,
  scope,
  response: Type.Array(OperatorUser),
});

export const addUser = endpoint({
  method: "POST",
  path: "/users",
  summary: "Add a person, into a workspace if one is named",
  tag,
  scope,
  body: Type.Object({
    email: Email,
    /** Shown as `createdBy`; the email when absent. */
    name: Type.Optional(Text),
    givenName: Type.Optional(Text),
    familyName: Type.Optional(Text),
    password: Type.Optional(Password),
    workspace: Type.Optional(Name),
    /** `member` when absent. */
    role: Type.Optional(Type.Enum(["admin", "member"])),
  }),
  response: OperatorUser,
  errors: [409],
});

export const changeUser = endpoint({
  method: "PUT",
  path: "/users/:user",
  summary: "Set a person's password or email, or disable or enable the person",
  tag,
  scope,
  params: OneUser,
  body: Type.Object({
    password: Type.Optional(Password),
    disabled: Type.Optional(Type.Boolean()),
    email: Type.Optional(Email),
  }),
  response: OperatorUser,
  errors: [409],
});

export const removeUser = endpoint({
  method: "DELETE",
  path: "/users/:user",
  summary: "Remove a person with all keys, tokens and memberships",
  tag,
  scope,
  params: OneUser,
  response: OperatorUser,
  errors: [409],
});

export const createUserKey = endpoint({
  method: "POST",
  path: "/users/:user/api_keys",
  summary: "Make an API key for a person, for example when the first one was lost",
  tag,
  scope,
  params: OneUser,
  /** The workspace in which it acts when none is named; the person's first one when absent. */
  body: Type.Object({ ...ApiKeyInput.properties, workspace: Type.Optional(Name) }),
  response: NewApiKey,
  errors: [409],
});
