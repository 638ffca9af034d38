// `catnap oauth clients`, `add-client`, `remove-client`, `keys` and `rotate-keys`: OAuth 2.0, for the operator of the machine.
import type { Command } from "commander";
import {
  createOauthClient,
  deleteOauthClient,
  listOauthClients,
  listSigningKeys,
  type OauthSigningKey,
  rotateSigningKeys,
} from "../../contract/operator/oauth.ts";
import type { CliContext } from "../context.ts";
import { usageFailure } from "../failure.ts";
import { formatJson } from "../format.ts";
import { addOperatorOptions, connectOperator, type OperatorOptions } from "../http/operator-client.ts";
import { collect } from "../option-values.ts";
import { formatTable } from "../table.ts";

export function defineOauthClients(command: Command, context: CliContext): void {
  addOperatorOptions(command).action(async (options: OperatorOptions) => {
    using operator = connectOperator(context, options);
    const clients = await operator.call(listOauthClients);
    if (options.json === true) return void context.stdout.write(formatJson(clients));
    const columns = [{ title: "CLIENT ID" }, { title: "NAME" }, { title: "KIND" }, { title: "REDIRECT URIS" }];
    const rows = clients.map((client) => [
      client.clientId,
      client.name,
      client.public ? "public" : "confidential",
      client.redirectUris.join(" "),
    ]);
    context.stdout.write(formatTable(columns, rows));
  });
}

type AddOptions = OperatorOptions & { redirectUri?: string[]; confidential?: boolean };

export function defineOauthAddClient(command: Command, context: CliContext): void {
  addOperatorOptions(command)
    .argument("<name>", "what people are shown when they are asked to agree")
    .option("--redirect-uri <uri>", "where codes may be sent to; can be repeated", collect)
    .option("--confidential", "it runs on a server and can keep a secret")
    .action(async (name: string, options: AddOptions) => {
      const { redirectUri: redirectUris } = options;
      if (redirectUris === undefined) throw usageFailure("Name at least one address with --redirect-uri.");
      using operator = connectOperator(context, options);
      const body = { name, public: options.confidential !== true, redirectUris };
      const client = await operator.call(createOauthClient, { body });
      if (options.json === true) return void context.stdout.write(formatJson(client));
      context.stdout.write(`client id      ${client.clientId}\n`);
      if (client.clientSecret === undefined) return;
      context.stdout.write(`client secret  ${client.clientSecret}\n`);
      context.stderr.write("The secret is shown this once.\n");
    });
}

export function defineOauthRemoveClient(command: Command, context: CliContext): void {
  addOperatorOptions(command)
    .argument("<client-id>", "as `catnap oauth clients` lists it")
    .action(async (clientId: string, options: OperatorOptions) => {
      using operator = connectOperator(context, options);
      const client = await operator.call(deleteOauthClient, { params: { clientId } });
      if (options.json === true) context.stdout.write(formatJson(client));
      else context.stdout.write(`removed ${client.clientId}\n`);
    });
}

export function defineOauthKeys(command: Command, context: CliContext): void {
  addOperatorOptions(command).action(async (options: OperatorOptions) => {
    using operator = connectOperator(context, options);
    printKeys(context, options, await operator.call(listSigningKeys));
  });
}

export function defineOauthRotateKeys(command: Command, context: CliContext): void {
  addOperatorOptions(command)
    .option("--revoke", "no longer accept what older keys have signed: everyone has to sign in or refresh")
    .action(async (options: OperatorOptions & { revoke?: boolean }) => {
      using operator = connectOperator(context, options);
      printKeys(
        context,
        options,
        await operator.call(rotateSigningKeys, { body: { revoke: options.revoke === true } }),
      );
    });
}

function printKeys(context: CliContext, options: OperatorOptions, keys: readonly OauthSigningKey[]): void {
  if (options.json === true) return void context.stdout.write(formatJson(keys));
  const columns = [{ title: "KEY ID" }, { title: "ACTIVE FROM" }, { title: "USE" }];
  const rows = keys.map(({ keyId, activeAt, signs }) => [keyId, activeAt, signs ? "signs" : "verifies"]);
  context.stdout.write(formatTable(columns, rows));
}
