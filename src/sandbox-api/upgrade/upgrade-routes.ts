// Upgrades over HTTP: begun here, told of by the health report.
import { upgradeSandbox } from "../../contract/sandbox-api/upgrade.ts";
import { type App, route } from "../route.ts";

export function registerUpgradeRoutes(app: App): void {
  route(app, upgradeSandbox, ({ body, session }) => {
    const { version = "latest" } = body;
    const baseUrl = body.baseUrl === "" ? undefined : body.baseUrl;
    session.upgrades.start(version, baseUrl);
    return { message: "Upgrade started; GET /health tells how it goes.", version, baseUrl: baseUrl ?? "" };
  });
}
