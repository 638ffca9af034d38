// The operations on features, mounted: for callers, and for the operator of the machine.
import type { FastifyInstance } from "fastify";
import { getFeature, listFeatures } from "../../contract/feature.ts";
import { implement } from "../../contract/implement.ts";
import { listFeatureSettings, resetFeature, setFeature } from "../../contract/operator/features.ts";
import { timingOf } from "../../core/timing.ts";
import { callerOf } from "../app.ts";
import type { FeatureService } from "./service.ts";

export function mountFeatures(app: FastifyInstance, service: FeatureService): void {
  implement(app, listFeatures, async (_, request) => {
    const names = await timingOf(request.raw).measure("store", () => service.listEnabled(callerOf(request)));
    return { features: Object.fromEntries(names.map((name) => [name, true])) };
  });

  implement(app, getFeature, ({ params }, request) =>
    timingOf(request.raw).measure("store", () => service.evaluate(callerOf(request), params.featureKey)),
  );
}

export function mountOperatorFeatures(operator: FastifyInstance, service: FeatureService): void {
  implement(operator, listFeatureSettings, ({ params }) => service.listSettings(params.workspace));

  implement(operator, setFeature, ({ params, body }) => service.set(params.workspace, params.featureKey, body));

  implement(operator, resetFeature, ({ params }) => service.reset(params.workspace, params.featureKey));
}
