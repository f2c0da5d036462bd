// Walks the life of a competition, a deploy, a backtest and an upload with the types that openapi-typescript writes.
import type { operations, paths } from "./api.js";

declare const process: { argv: string[] };
const [, , url, token, entry, table] = process.argv as [string, string, string, string, string, string];

type Method = "get" | "post" | "delete";
type Operation<P extends keyof paths, M extends Method> = NonNullable<paths[P][M]>;
type Of<O, K extends string> = O extends { parameters: { [N in K]: infer F } } ? F : undefined;
type Body<O> = O extends { requestBody: { content: { "application/json": infer B } } } ? B : undefined;
type Declared<O> = O extends { responses: infer R } ? keyof R : never;
type Answer<O, S> = O extends { responses: infer R }
  ? S extends keyof R ? (R[S] extends { content: { "application/json": infer A } } ? A : undefined) : never
  : never;
interface Options<O> { path?: Of<O, "path">; query?: Record<string, string>; body?: Body<O>; bytes?: string; headers?: Record<string, string> }

async function call<P extends keyof paths, M extends Method, S extends Declared<Operation<P, M>>>(
  method: M, path: P, status: S, options: Options<Operation<P, M>> = {},
): Promise<Answer<Operation<P, M>, S>> {
  const filled = Object.entries(options.path ?? {}).reduce((at: string, [k, v]) => at.replace(`{${k}}`, encodeURIComponent(String(v))), path as string);
  const sent: Record<string, string> = options.body === undefined ? {} : { "Content-Type": "application/json" };
  const response = await fetch(`${url}${filled}?${new URLSearchParams(options.query)}`, {
    method: method.toUpperCase(),
    headers: { Authorization: `Bearer ${token}`, ...sent, ...options.headers },
    body: options.bytes ?? (options.body === undefined ? undefined : JSON.stringify(options.body)),
  });
  const text = await response.text();
  if (response.status !== status) throw new Error(`${method} ${filled}: ${response.status} ${text}`);
  return (text.startsWith("{") || text.startsWith("[") ? JSON.parse(text) : undefined) as Answer<Operation<P, M>, S>;
}

function check(fact: boolean, about: string): void {
  if (!fact) throw new Error(about);
}

async function over(run_id: string): Promise<void> {
  for (;;) {
    const found = await call("get", "/runs/{run_id}/progress", 200, { path: { run_id } });
    if (found.status === "sealed") return;
    check(found.status === "queued" || found.status === "running", `run ${run_id} is ${found.status}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const soon = { Prefer: "respond-async" };
type Bound = { pack_id: string; fixture_id: number };
const bound = JSON.parse(entry) as Bound;

// a competition
const config = { competition_type: "arena", source_mode: "replay", market_scope: "all", roster_size: 2, ...bound } as const;
const { competition_id } = await call("post", "/competitions", 201, { body: config });
await call("post", "/competitions/{competition_id}/agents", 201, { path: { competition_id }, body: { agent_id: "a", strategy: "baseline" } });
const started = await call("post", "/competitions/{competition_id}/start", 200, { path: { competition_id } });
await over(started.run_id!);
const state = await call("get", "/competitions/{competition_id}", 200, { path: { competition_id } });
check(state.status === "finalized" && state.anchor_status === "not_anchored", state.status);
const events = await call("get", "/competitions/{competition_id}/events", 200, { path: { competition_id }, query: { since_seq: "-1" } });
check(events[0]!.kind === "COMPETITION_STARTED", "the log begins with another event");
const refused: operations["cancelCompetition"]["responses"][409]["content"]["application/problem+json"] =
  (await call("post", "/competitions/{competition_id}/cancel", 409, { path: { competition_id } })) as never;
check(refused.documentation_url.startsWith("/problems#"), "a problem without its description");
const unused = await call("post", "/competitions", 201, { body: config });
await call("delete", "/competitions/{competition_id}", 204, { path: unused });

// a deploy
const deployed = await call("post", "/agents/deploy", 201, { body: { strategy: "baseline", source_mode: "replay", ...bound } });
await over(deployed.run_id);
const { instance_id } = deployed;
check((await call("get", "/agents/instances/{instance_id}", 200, { path: { instance_id } })).run_status === "sealed", "not sealed");
await call("get", "/agents/instances/{instance_id}/runtime-events", 200, { path: { instance_id } });
await call("post", "/agents/instances/{instance_id}/cancel", 409, { path: { instance_id } });
await call("delete", "/agents/instances/{instance_id}", 204, { path: { instance_id } });

// a backtest
const made = await call("post", "/backtests", 201, { body: { ...bound, window_id: "typescript", market_allowlist: [""] } });
const { backtest_id } = made;
check((await call("get", "/backtests/{backtest_id}", 200, { path: { backtest_id } })).mode_label === "Backtest", "another label");
check((await call("post", "/runs/{run_id}/verify", 200, { path: { run_id: made.run_id } })).verified, "not verified");
await call("post", "/backtests/{backtest_id}/cancel", 409, { path: { backtest_id }, headers: { "Idempotency-Key": "k" } });

// an upload
const query = { pack_id: "typescript", source: "csv", column: "book=bookmaker" };
await call("post", "/me/packs", 201, { query, bytes: table });
const sent = await call("post", "/me/packs", 202, { query, bytes: table, headers: soon });
const upload_id = sent.upload_id!;
while ((await call("get", "/me/uploads/{upload_id}", 200, { path: { upload_id } })).status !== "sealed");
await call("post", "/me/uploads/{upload_id}/cancel", 409, { path: { upload_id } });
await call("delete", "/me/packs/{pack_id}", 204, { path: { pack_id: "typescript" } });
