// Services as they speak: how each is asked, what it answers, and how it refuses a key.
import assert from "node:assert/strict";
import { type Asked, json, type Respond } from "../outgoing/fake-service.ts";

export const credential = "sk-live-4f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c";

type Case = {
  kind: string;
  /** Below the origin of the service. */
  address?: string;
  addressKey?: string;
  config?: Record<string, string>;
  secretKey?: string;
  respond: Respond;
  expected: object[];
  checkAsked: (asked: Asked[]) => void;
  /** What the service says about a wrong key. */
  refusal: { status: number; body: unknown; said: RegExp };
};

function bearerOf({ headers }: Asked): string | undefined {
  return headers.authorization;
}

function askedOnce(path: string): (asked: Asked[]) => void {
  return (asked) => {
    assert.deepEqual(
      asked.map(({ method, url }) => `${method} ${url.pathname}`),
      [`GET ${path}`],
    );
    assert.equal(bearerOf(asked[0]!), `Bearer ${credential}`);
  };
}

export const cases: Case[] = [
  {
    kind: "openai",
    address: "/v1",
    config: { organization: "org-1", project: "proj-2" },
    respond: (response) =>
      json(response, 200, {
        object: "list",
        data: [
          { id: "gpt-4o", object: "model", created: 1715367049, owned_by: "system" },
          { id: "ft:gpt-4o:acme::7p4lURel", object: "model", created: 1716000000, owned_by: "acme" },
        ],
      }),
    expected: [
      { id: "gpt-4o", name: "gpt-4o", provider: "openai", createdAt: "2024-05-10T18:50:49.000Z" },
      {
        id: "ft:gpt-4o:acme::7p4lURel",
        name: "ft:gpt-4o:acme::7p4lURel",
        provider: "openai",
        createdAt: "2024-05-18T02:40:00.000Z",
      },
    ],
    checkAsked(asked) {
      askedOnce("/v1/models")(asked);
      assert.equal(asked[0]!.headers["openai-organization"], "org-1");
      assert.equal(asked[0]!.headers["openai-project"], "proj-2");
    },
    refusal: {
      status: 401,
      body: {
        error: {
          message: `Incorrect API key provided: ${credential.slice(0, 8)}*********${credential.slice(-4)}. You can find your API key at https://platform.openai.com/account/api-keys.`,
          type: "invalid_request_error",
          param: null,
          code: "invalid_api_key",
        },
      },
      said: /refused the credential \(401\): Incorrect API key provided: \[redacted\]/,
    },
  },
  {
    kind: "openai-compatible",
    address: "/api/v1",
    respond: (response) =>
      json(response, 200, {
        data: [
          { id: "meta-llama/llama-3.3-70b:free", name: "Llama 3.3 70B", created: 1733506137, context_length: 131072 },
          { id: "qwen3", object: "model", created: 0, owned_by: "vllm", max_model_len: 40960 },
        ],
      }),
    expected: [
      {
        id: "meta-llama/llama-3.3-70b:free",
        name: "Llama 3.3 70B",
        provider: "openai-compatible",
        createdAt: "2024-12-06T17:28:57.000Z",
        contextWindow: 131072,
      },
      { id: "qwen3", name: "qwen3", provider: "vllm", contextWindow: 40960 },
    ],
    checkAsked: askedOnce("/api/v1/models"),
    refusal: { status: 401, body: { error: { message: "No auth credentials found", code: 401 } }, said: /No auth/ },
  },
  {
    kind: "anthropic",
    respond(response, { url }) {
      const first = url.searchParams.get("after_id") === null;
      json(response, 200, {
        data: [
          first
            ? {
                type: "model",
                id: "claude-opus-4-6",
                display_name: "Claude Opus 4.6",
                created_at: "2026-02-04T00:00:00Z",
                max_input_tokens: 200000,
                max_tokens: 128000,
              }
            : {
                type: "model",
                id: "claude-2.1",
                display_name: "Claude 2.1",
                created_at: "1970-01-01T00:00:00Z",
                max_input_tokens: null,
              },
        ],
        has_more: first,
        first_id: "claude-opus-4-6",
        last_id: first ? "claude-opus-4-6" : "claude-2.1",
      });
    },
    expected: [
      {
        id: "claude-opus-4-6",
        name: "Claude Opus 4.6",
        provider: "anthropic",
        createdAt: "2026-02-04T00:00:00.000Z",
        contextWindow: 200000,
      },
      { id: "claude-2.1", name: "Claude 2.1", provider: "anthropic" },
    ],
    checkAsked(asked) {
      assert.deepEqual(
        asked.map(({ url }) => `${url.pathname}${url.search}`),
        ["/v1/models?limit=100", "/v1/models?limit=100&after_id=claude-opus-4-6"],
      );
      for (const { headers } of asked) {
        assert.equal(headers["x-api-key"], credential);
        assert.equal(headers["anthropic-version"], "2023-06-01");
        assert.equal(headers.authorization, undefined);
      }
    },
    refusal: {
      status: 401,
      body: {
        type: "error",
        error: { type: "authentication_error", message: "invalid x-api-key" },
        request_id: "req_1",
      },
      said: /refused the credential \(401\): invalid x-api-key/,
    },
  },
  {
    kind: "mistral",
    address: "/v1",
    secretKey: "MISTRAL_API_KEY",
    respond: (response) =>
      json(response, 200, {
        object: "list",
        data: [
          {
            id: "mistral-large-2411",
            object: "model",
            created: 1731974400,
            owned_by: "mistralai",
            capabilities: { completion_chat: true },
            name: "mistral-large-2411",
            max_context_length: 131072,
            aliases: ["mistral-large-latest"],
            deprecation: null,
            type: "base",
          },
        ],
      }),
    expected: [
      {
        id: "mistral-large-2411",
        name: "mistral-large-2411",
        provider: "mistral",
        createdAt: "2024-11-19T00:00:00.000Z",
        contextWindow: 131072,
      },
    ],
    checkAsked: askedOnce("/v1/models"),
    refusal: { status: 401, body: { detail: "Unauthorized" }, said: /refused the credential \(401\): Unauthorized/ },
  },
  {
    kind: "cohere",
    respond(response, { url }) {
      const first = url.searchParams.get("page_token") === null;
      json(response, 200, {
        models: [
          first
            ? {
                name: "command-a-03-2025",
                endpoints: ["chat"],
                finetuned: false,
                context_length: 288000.0,
                is_deprecated: false,
              }
            : { name: "embed-v4.0", endpoints: ["embed"], finetuned: false, context_length: 0 },
        ],
        ...(first && { next_page_token: "eyJwYWdlIjoxfQ==" }),
      });
    },
    expected: [
      { id: "command-a-03-2025", name: "command-a-03-2025", provider: "cohere", contextWindow: 288000 },
      { id: "embed-v4.0", name: "embed-v4.0", provider: "cohere" },
    ],
    checkAsked(asked) {
      assert.deepEqual(
        asked.map(({ url }) => [url.pathname, url.searchParams.get("page_token")]),
        [
          ["/v1/models", null],
          ["/v1/models", "eyJwYWdlIjoxfQ=="],
        ],
      );
      assert.equal(bearerOf(asked[1]!), `Bearer ${credential}`);
    },
    refusal: { status: 401, body: { message: "invalid api token" }, said: /\(401\): invalid api token/ },
  },
  {
    kind: "gemini",
    respond(response, { url }) {
      const first = url.searchParams.get("pageToken") === null;
      json(response, 200, {
        models: [
          first
            ? {
                name: "models/gemini-2.5-pro",
                version: "2.5",
                displayName: "Gemini 2.5 Pro",
                inputTokenLimit: 1048576,
                outputTokenLimit: 65536,
                supportedGenerationMethods: ["generateContent"],
              }
            : { name: "models/embedding-001", version: "001", displayName: "Embedding 001", inputTokenLimit: 2048 },
        ],
        ...(first && { nextPageToken: "Ch1tb2RlbHM" }),
      });
    },
    expected: [
      { id: "gemini-2.5-pro", name: "Gemini 2.5 Pro", provider: "gemini", contextWindow: 1048576 },
      { id: "embedding-001", name: "Embedding 001", provider: "gemini", contextWindow: 2048 },
    ],
    checkAsked(asked) {
      assert.deepEqual(
        asked.map(({ url }) => `${url.pathname}${url.search}`),
        ["/v1beta/models?pageSize=1000", "/v1beta/models?pageSize=1000&pageToken=Ch1tb2RlbHM"],
      );
      assert.equal(asked[0]!.headers["x-goog-api-key"], credential);
    },
    refusal: {
      status: 400,
      body: {
        error: {
          code: 400,
          message: "API key not valid. Please pass a valid API key.",
          status: "INVALID_ARGUMENT",
          details: [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "API_KEY_INVALID" }],
        },
      },
      said: /refused the credential \(400\): API key not valid/,
    },
  },
  {
    kind: "azure-ai-foundry",
    address: "",
    addressKey: "endpoint",
    respond: (response) =>
      json(response, 200, {
        data: [
          {
            status: "succeeded",
            capabilities: { fine_tune: false, inference: true, chat_completion: true },
            lifecycle_status: "generally-available",
            id: "gpt-4o-2024-08-06",
            created_at: 1722902400,
            object: "model",
          },
        ],
        object: "list",
      }),
    expected: [
      {
        id: "gpt-4o-2024-08-06",
        name: "gpt-4o-2024-08-06",
        provider: "azure-ai-foundry",
        createdAt: "2024-08-06T00:00:00.000Z",
      },
    ],
    checkAsked(asked) {
      assert.deepEqual(
        asked.map(({ url }) => `${url.pathname}${url.search}`),
        ["/openai/models?api-version=2024-10-21"],
      );
      assert.equal(asked[0]!.headers["api-key"], credential);
      assert.equal(asked[0]!.headers.authorization, undefined);
    },
    refusal: {
      status: 401,
      body: {
        error: {
          code: "401",
          message: "Access denied due to invalid subscription key or wrong API endpoint.",
        },
      },
      said: /refused the credential \(401\): Access denied/,
    },
  },
  {
    kind: "deepseek",
    respond: (response) =>
      json(response, 200, {
        object: "list",
        data: [{ id: "deepseek-chat", object: "model", owned_by: "deepseek" }],
      }),
    expected: [{ id: "deepseek-chat", name: "deepseek-chat", provider: "deepseek" }],
    checkAsked: askedOnce("/models"),
    refusal: {
      status: 401,
      body: {
        error: {
          message: `Authentication Fails, Your api key: ****${credential.slice(-4)} is invalid`,
          type: "authentication_error",
          param: null,
          code: "invalid_request_error",
        },
      },
      said: /Your api key: \[redacted\] is invalid/,
    },
  },
  {
    kind: "xai",
    address: "/v1",
    respond: (response) =>
      json(response, 200, {
        object: "list",
        data: [{ id: "grok-3", created: 1743724800, object: "model", owned_by: "xai" }],
      }),
    expected: [{ id: "grok-3", name: "grok-3", provider: "xai", createdAt: "2025-04-04T00:00:00.000Z" }],
    checkAsked: askedOnce("/v1/models"),
    refusal: {
      status: 400,
      body: {
        code: "Client specified an invalid argument",
        error: `Incorrect API key provided: ${credential.slice(0, 2)}***${credential.slice(-2)}. You can obtain an API key from https://console.x.ai.`,
      },
      said: /refused the credential \(400\): Incorrect API key provided: \[redacted\]/,
    },
  },
  {
    kind: "huggingface",
    address: "/v1",
    secretKey: "HF_TOKEN",
    respond: (response) =>
      json(response, 200, {
        object: "list",
        data: [
          {
            id: "Qwen/Qwen3-8B",
            object: "model",
            created: 1745769600,
            owned_by: "Qwen",
            providers: [
              { provider: "nscale", status: "live", context_length: 32768 },
              { provider: "featherless-ai", status: "live", context_length: 40960 },
              { provider: "other", status: "live" },
            ],
          },
        ],
      }),
    expected: [
      {
        id: "Qwen/Qwen3-8B",
        name: "Qwen/Qwen3-8B",
        provider: "Qwen",
        createdAt: "2025-04-27T16:00:00.000Z",
        contextWindow: 40960,
      },
    ],
    checkAsked: askedOnce("/v1/models"),
    refusal: { status: 401, body: { error: "Invalid username or password." }, said: /\(401\): Invalid username/ },
  },
];
