// Shapes: the content of values of each kind. Values are canonical when read, so a shape requires only keys, types and bounds.

const SAFE = Number.MAX_SAFE_INTEGER;
const MAX_WINDOW_S = Math.floor(SAFE / 1_000_000);

const text = (value) => typeof value === "string";
const yesOrNo = (value) => typeof value === "boolean";
const between = (low, high) => (value) => typeof value === "number" && value >= low && value <= high;
const oneOf = (...texts) => (value) => texts.includes(value);
const nullOr = (shape) => (value) => value === null || shape(value);
const listOf = (shape) => (value) => Array.isArray(value) && value.every(shape);
const hash = (value) => text(value) && /^sha256:[0-9a-f]{64}$/.test(value);
const [integer, count] = [between(-SAFE, SAFE), between(0, SAFE)];
const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

// An object with exactly these keys; a key that ends in a question mark is optional.
function keyed(shapes) {
  const rules = Object.entries(shapes).map(([key, shape]) => [key.replace(/\?$/, ""), shape, key.endsWith("?")]);
  const known = new Set(rules.map(([key]) => key));
  return (value) =>
    isObject(value) &&
    Object.keys(value).every((key) => known.has(key)) &&
    rules.every(([key, shape, optional]) => (key in value ? shape(value[key]) : optional));
}

const each = (names, shape) => Object.fromEntries(names.split(" ").map((name) => [name, shape]));

const CLOSE_KINDS = { pre_match: ["in_running", "kickoff", "tape_end"], fixed_duration: ["duration"], manual_stop: ["stop"] };
const MODES = { replay: "Backtest", live: "Live paper" };
const SINCE_TWO = "transcript stepped stepped-blocks asked".split(" ");
const LABELS = [..."template audited-sandbox audited-process unchecked tick-by-tick prefix-audit live".split(" "), ...SINCE_TWO];
const HELD = "calls files libraries memory processes root".split(" ");
const EARLY =
  "kill_switch_on market_not_allowed venue_not_allowed warmup cooldown_active stake_missing stake_over_max prob_out_of_range order_cap exposure_cap".split(" ");
const LATE = "quote_missing quote_stale slippage_over_max edge_below_min stake_over_max".split(" ");

const _probability = between(0, 10_000);
const _seconds = between(0, Math.floor(SAFE / 1000));
const _side = keyed({ odds_milli: nullOr(between(1001, 100_000_000)), prob_bps: nullOr(_probability), side: text });
const _state = { sides: listOf(_side), suspended: yesOrNo, tick_seq: integer, ts_ms: count };
const _phase = (reasons) => keyed({ allowed: yesOrNo, reasons: listOf(oneOf(...reasons)) });

const _policy = keyed({
  cooldown_s: _seconds,
  execution_mode: oneOf("paper", "dry_run"),
  kill_switch: yesOrNo,
  market_allowlist: listOf(text),
  ...each("max_exposure_per_fixture max_exposure_per_market max_orders", nullOr(count)),
  ...each("max_prob_bps max_slippage_bps min_prob_bps", _probability),
  max_quote_age_s: _seconds,
  ...each("max_stake warmup_ticks", count),
  min_edge_bps: nullOr(between(-10_000, SAFE)),
  require_quote: yesOrNo,
  schema: oneOf("clvlab-policy/1"),
  venue_allowlist: listOf(text),
});

const _agent = keyed({
  ...each("agent_id config_hash proof_mode strategy strategy_version", text),
  causality: oneOf(...LABELS),
  config: isObject,
  "network?": (value) => value === true,
  "reads?": listOf(keyed(each("name sha256", text))),
  source_sha256: nullOr(text),
});

const _window = keyed({
  "close_source?": text,
  closing_policy: oneOf("last_state", "last_open"),
  duration_s: nullOr(between(1, MAX_WINDOW_S)),
  end_rule: oneOf(...Object.keys(CLOSE_KINDS)),
  market_allowlist: listOf(text),
  "max_close_age_s?": between(1, MAX_WINDOW_S),
  min_clv_horizon_s: between(0, MAX_WINDOW_S),
  window_id: text,
});

const PAYLOADS = {
  RUN_STARTED: keyed({
    agents: listOf(_agent),
    binding: keyed({ content_hash: nullOr(text), fixture_ids: listOf(integer), pack_id: nullOr(text) }),
    "isolation?": listOf(keyed({ agent_id: text, held: listOf(oneOf(...HELD)) })),
    ...each("kind policy_hash run_id", text),
    law_version: oneOf("clv-law/1"),
    mode_label: oneOf(...Object.values(MODES)),
    origin_id: nullOr(text),
    policy: _policy,
    schema: oneOf("clvlab-run/1", "clvlab-run/2"),
    source_mode: oneOf(...Object.keys(MODES)),
    window: _window,
  }),
  DECISION: keyed({
    action: keyed({
      limit_odds_milli: nullOr(between(0, 2 ** 31 - 1)),
      ...each("market_key side", nullOr(text)),
      stake: nullOr(count),
      type: oneOf("BACK", "WAIT"),
    }),
    agent_id: text,
    ...each("fixture_id tick_seq", integer),
    market_state: nullOr(keyed({ age_ms: count, ..._state })),
    policy: nullOr(keyed({ post: _phase(LATE), pre: _phase(EARLY) })),
    ts_ms: count,
    untrusted: keyed({
      claimed_edge_bps: nullOr(integer),
      confidence_ppm: nullOr(between(0, 1_000_000)),
      ...each("confidence_raw reason", nullOr(text)),
    }),
  }),
  AGENT_ERROR: keyed({ ...each("agent_id error", text), ...each("fixture_id tick_seq", nullOr(integer)) }),
  MARKET_CLOSE: keyed({
    ...each("close_kind market_key", text),
    close_ts_ms: count,
    closing: nullOr(keyed(_state)),
    ...each("end_seq fixture_id", integer),
  }),
  RUN_SEALED: keyed({ ...each("agent_errors decisions market_closes", count), "content_hash?": hash }),
};

const RECEIPT = keyed({
  ...each("agent_id run_id status venue", text),
  ...each("decision_seq ts_ms", integer),
  non_scoring: (value) => value === true,
  odds_milli: nullOr(integer),
  stake: count,
});
const MANIFEST = keyed({
  ...each("config_hash evidence_hash evidence_root policy_hash run_id score_root", text),
  commit_index: nullOr(count),
  content_hash: nullOr(text),
  event_count: count,
  law_version: oneOf("clv-law/1"),
  schema: oneOf("clvlab-manifest/1"),
  verifier_version: oneOf("clvlab-proof/1"),
});
const ANCHOR = keyed({ ...each("cluster signature transaction", text), schema: oneOf("clvlab-bundle-anchor/1") });

const PROOF = listOf((value) => text(value) && /^[0-9a-f]{64}$/.test(value));
const _proved = keyed({ entry: text, index: count, proof: PROOF });
const _log = { checkpoint: text, commit: _proved, earlier: nullOr(keyed({ checkpoint: text, proof: PROOF })), outcome: _proved };
const _claimed = keyed(each("abandoned earlier later unknown_pack", count));
const _logOne = keyed({ ..._log, schema: oneOf("clvlab-bundle-log/1") });
const _logTwo = keyed({ ..._log, schema: oneOf("clvlab-bundle-log/2"), claim: _claimed });
const LOG = (value) => _logOne(value) || _logTwo(value);

const _commit = { ...each("inputs_hash owner run_id", text), kind: oneOf("COMMIT"), ts_ms: count };
const _commitOne = keyed({ ..._commit, schema: oneOf("clvlab-log/1") });
const _commitTwo = keyed({ ..._commit, schema: oneOf("clvlab-log/2"), content_hash: nullOr(text) });
const _commitSix = keyed({ ..._commit, schema: oneOf("clvlab-log/6"), content_hash: nullOr(text), sources_hash: text });
const COMMIT = (value) => _commitOne(value) || _commitTwo(value) || _commitSix(value);
const _result = { ...each("manifest_hash run_id", text), commit_index: count, kind: oneOf("RESULT"), ts_ms: count };
const _resultOld = keyed({ ..._result, schema: oneOf("clvlab-log/1", "clvlab-log/2") });
const _resultSix = keyed({ ..._result, schema: oneOf("clvlab-log/6"), content_hash: nullOr(text) });
const RESULT = (value) => _resultOld(value) || _resultSix(value);

const _line = keyed({ ...each("index size", count), line: text, proof: PROOF });
const DISCLOSURE = keyed({
  close: nullOr(_line),
  ...each("decision score sealed started", _line),
  manifest: text,
  schema: oneOf("clvlab-disclosure/2"),
});

// Read a text that must be canonical and have a shape.
function shaped(source, shape, where) {
  let value;
  try {
    value = readCanonical(typeof source === "string" ? source : textOf(source));
  } catch (error) {
    if (!(error instanceof Broken)) throw error;
    throw new Broken(`${where} is broken: ${error.message}`);
  }
  require(shape(value), `${where} has other keys or values than its kind`);
  return value;
}
