// Tells whoever keeps tokens that a person or service account may no longer be signed in with those issued so far.

export type RevocationListener = (principalId: string) => Promise<void>;

export class Revocations {
  readonly #listeners: RevocationListener[] = [];

  subscribe(listener: RevocationListener): void {
    this.#listeners.push(listener);
  }

  /** Resolves once every listener has forgotten the principal's tokens. */
  async announce(principalId: string): Promise<void> {
    await Promise.all(this.#listeners.map((listener) => listener(principalId)));
  }
}
