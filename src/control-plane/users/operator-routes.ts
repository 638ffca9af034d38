// The operator's operations on people, mounted.
import type { FastifyInstance } from "fastify";
import { implement } from "../../contract/implement.ts";
import { addUser, changeUser, createUserKey, listUsers, removeUser } from "../../contract/operator/users.ts";
import { adminScope } from "../../contract/scopes.ts";
import { AppError } from "../../core/errors.ts";
import type { ApiKeyService } from "../api-keys/service.ts";
import { operatorName } from "../operator/app.ts";
import type { User, UserService } from "./service.ts";

export type OperatorUsersOptions = { users: UserService; apiKeys: ApiKeyService };

export function mountOperatorUsers(operator: FastifyInstance, { users, apiKeys }: OperatorUsersOptions): void {
  implement(operator, listUsers, () => users.list());
  implement(operator, addUser, ({ body: { workspace, role = "member", ...person } }) =>
    users.add({ ...person, ...(workspace !== undefined && { membership: { workspace, role } }) }),
  );
  implement(operator, changeUser, async ({ params, body }) => {
    let user: User = await users.get(params.user);
    if (body.password !== undefined) user = await users.setPassword(params.user, body.password);
    if (body.disabled !== undefined) user = await users.setDisabled(params.user, body.disabled);
    // Last: the person may be named by the email that changes.
    if (body.email !== undefined) user = await users.setEmail(params.user, body.email);
    return user;
  });
  implement(operator, removeUser, ({ params }) => users.remove(params.user));
  implement(operator, createUserKey, async ({ params, body: { workspace, ...input } }) => {
    const { id } = await users.get(params.user);
    const memberships = await users.listMemberships(id);
    const home = workspace === undefined ? memberships[0] : memberships.find((each) => each.workspace === workspace);
    if (home === undefined) {
      throw new AppError("not_found", "The person does not belong to this workspace, or to any.");
    }
    const order = { owner: { user_id: id }, workspaceId: home.workspaceId, createdBy: operatorName };
    return apiKeys.create({ ...order, granted: [adminScope] }, input);
  });
}
