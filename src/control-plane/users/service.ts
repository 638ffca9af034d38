// People: who they are, how they prove it with a password, and what the operator of the installation does with them.
import { AppError } from "../../core/errors.ts";
import { randomToken } from "../../core/ids.ts";
import { TokenBuckets } from "../../core/token-buckets.ts";
import type { Revocations } from "../auth/revocations.ts";
import type { Role } from "../auth/scopes.ts";
import type { UsersTable } from "../db/tables/users.ts";
import { createPasswordHasher, type PasswordHasher, passwordMaxLength, passwordMinLength } from "./password.ts";
import type { Membership, UserStore } from "./store.ts";

export type User = {
  id: string;
  /** Shown as `createdBy`. */
  name: string;
  email: string | undefined;
  givenName: string | undefined;
  familyName: string | undefined;
  hasPassword: boolean;
  disabled: boolean;
  createdAt: string;
};

export type NewUser = {
  email: string;
  name?: string;
  givenName?: string;
  familyName?: string;
  password?: string;
  membership?: { workspace: string; role: Role };
};

export type UserService = ReturnType<typeof createUserService>;

export type UserServiceOptions = { store: UserStore; revocations: Revocations; passwords?: PasswordHasher };

/** Wrong passwords for one account, from wherever: slow enough against guessing, fast enough that nobody is locked out for long. */
const attemptsPerAccount = { perSecond: 1 / 5, burst: 50 };
const attemptsPerAddress = { perSecond: 1 / 10, burst: 10 };

export function createUserService({ store, revocations, passwords = createPasswordHasher() }: UserServiceOptions) {
  const verifyPassword = createVerification(store, passwords);
  const get = async (emailOrName: string): Promise<UsersTable> => {
    const row = (await store.find("email", normalizeEmail(emailOrName))) ?? (await store.find("name", emailOrName));
    if (row === undefined) throw new AppError("not_found", "There is no such user.");
    return row;
  };
  return {
    /** Only a person whose credentials are accepted. */
    async findById(id: string): Promise<User | undefined> {
      const row = await store.find("id", id);
      return row === undefined || row.disabled_at !== null ? undefined : present(row);
    },
    /** Throws `rate_limited` after too many wrong passwords for the account, or from the client's address; see AttemptFrom. */
    verifyPassword,
    listMemberships: (userId: string): Promise<Membership[]> => store.listMemberships(userId),
    get: async (emailOrName: string): Promise<User> => present(await get(emailOrName)),
    list: async (): Promise<User[]> => (await store.list()).map(present),
    async add(input: NewUser): Promise<User> {
      const now = new Date().toISOString();
      const email = normalizeEmail(input.email);
      const row: UsersTable = {
        id: randomToken(16),
        name: input.name ?? email,
        email,
        given_name: input.givenName ?? null,
        family_name: input.familyName ?? null,
        password_hash: input.password === undefined ? null : await passwords.hash(checked(input.password)),
        created_at: now,
        updated_at: now,
        disabled_at: null,
      };
      const outcome = await store.insert(row, input.membership);
      if (outcome === "no workspace") throw new AppError("not_found", "There is no such workspace.");
      if (outcome === "taken") {
        throw new AppError("already_exists", "There is a user with this email or name already.");
      }
      return present(row);
    },
    ...createChanges({ store, revocations, passwords }, get),
    async remove(emailOrName: string): Promise<User> {
      const row = await get(emailOrName);
      const orphaned = await store.remove(row.id);
      if (orphaned !== undefined) {
        throw new AppError(
          "conflict",
          `This is the last administrator of ${orphaned.slice(0, 5).join(", ")}: make another member one first.`,
        );
      }
      await revocations.announce(row.id);
      return present(row);
    },
  };
}

function createChanges(
  { store, revocations, passwords }: Required<UserServiceOptions>,
  get: (emailOrName: string) => Promise<UsersTable>,
) {
  return {
    /** Ends every session that began with the old one. */
    async setPassword(emailOrName: string, password: string): Promise<User> {
      const row = await get(emailOrName);
      const changes = { password_hash: await passwords.hash(checked(password)), updated_at: new Date().toISOString() };
      await store.update(row.id, changes);
      await revocations.announce(row.id);
      return present({ ...row, ...changes });
    },
    /** What the person signs in with and is invited by; the operator vouches for it. */
    async setEmail(emailOrName: string, email: string): Promise<User> {
      const row = await get(emailOrName);
      const changes = { email: normalizeEmail(email), updated_at: new Date().toISOString() };
      if (!(await store.changeEmail(row.id, changes))) {
        throw new AppError("already_exists", "There is a user with this email already.");
      }
      return present({ ...row, ...changes });
    },
    /** A disabled person's keys and tokens are refused until the person is enabled again. */
    async setDisabled(emailOrName: string, disabled: boolean): Promise<User> {
      const row = await get(emailOrName);
      const now = new Date().toISOString();
      const changes = { disabled_at: disabled ? (row.disabled_at ?? now) : null, updated_at: now };
      await store.update(row.id, changes);
      if (disabled) await revocations.announce(row.id);
      return present({ ...row, ...changes });
    },
  };
}

export type AttemptFrom = {
  /** Undefined when it is not known. */
  address?: string | undefined;
  /** One in which the person has signed in before: what others guess does not count against it, nor its guesses against others. */
  browser?: string | undefined;
};

function createVerification(store: UserStore, passwords: PasswordHasher) {
  const byAccount = new TokenBuckets(attemptsPerAccount);
  const byAddress = new TokenBuckets(attemptsPerAddress);
  /** A guess is paid for before it is checked, so that guesses made at once are counted; the right one costs nothing. */
  return async (email: string, password: string, from: AttemptFrom = {}): Promise<User | undefined> => {
    const { address, browser } = from;
    const account = normalizeEmail(email).slice(0, 320);
    const counted = browser === undefined ? account : `${account} ${browser}`;
    const waitMs = (address === undefined ? 0 : byAddress.take(address)) || byAccount.take(counted);
    if (waitMs > 0) {
      throw new AppError("rate_limited", "There were too many wrong passwords; try again later.", {
        details: { retryAfterMs: waitMs },
      });
    }
    const row = await store.find("email", account);
    const matches = await passwords.verify(password, row?.password_hash);
    if (!matches || row === undefined || row.disabled_at !== null) return undefined;
    byAccount.giveBack(counted);
    if (address !== undefined) byAddress.giveBack(address);
    if (passwords.isOutdated(row.password_hash!)) {
      await store.update(row.id, { password_hash: await passwords.hash(password) });
    }
    return present(row);
  };
}

/** Addresses are compared in lower case. */
export function normalizeEmail(email: string): string {
  return email.trim().toLowerCase();
}

function checked(password: string): string {
  if (password.length >= passwordMinLength && password.length <= passwordMaxLength) return password;
  throw new AppError("invalid_request", `password must have ${passwordMinLength} to ${passwordMaxLength} characters`);
}

function present(row: UsersTable): User {
  return {
    id: row.id,
    name: row.name,
    email: row.email ?? undefined,
    givenName: row.given_name ?? undefined,
    familyName: row.family_name ?? undefined,
    hasPassword: row.password_hash !== null,
    disabled: row.disabled_at !== null,
    createdAt: row.created_at,
  };
}
