// The law clv-law/1: a score from the two states of a decision, its entry and the close of its market. All numbers are integers.

function priceOf(state, name) {
  const side = name === null ? undefined : state?.sides.find((one) => one.side === name);
  return side ? { prob: side.prob_bps, odds: side.odds_milli } : { prob: null, odds: null };
}

const allowedBy = (prefixes, market) => market !== null && prefixes.some((prefix) => market.startsWith(prefix));

// Value of the price taken at the closing probability, rounded half up; without a quote, of a fair price at the entry.
function edgeBps(entryProb, odds, closeProb) {
  if (odds !== null) return Math.floor((2 * closeProb * odds + 1000) / 2000) - 10_000;
  return entryProb > 0 ? Math.floor((20_000 * closeProb + entryProb) / (2 * entryProb)) - 10_000 : null;
}

// Closing probabilities are looked up in a map, because one close may have as many sides as there are decisions.
function closingProbabilities(closes) {
  const found = new Map();
  for (const [key, { closing }] of closes) {
    if (closing) found.set(key, new Map(closing.sides.map((side) => [side.side, side.prob_bps])));
  }
  return found;
}

function scoreRows({ started, decisions, closes }) {
  const finals = closingProbabilities(closes);
  return decisions.map((decision) => {
    const { action } = decision;
    const key = action.type === "BACK" && action.market_key !== null ? marketOf(decision.fixture_id, action.market_key) : null;
    const close = closes.get(key) ?? null;
    return scoreRow(decision, close, finals.get(key)?.get(action.side) ?? null, started.window);
  });
}

function scoreRow(decision, close, closeProb, window) {
  const { action, market_state: entry, agent_id, fixture_id, seq, tick_seq, ts_ms } = decision;
  const closing = close?.closing ?? null;
  const age = closing ? close.close_ts_ms - closing.ts_ms : null;
  const { prob, odds } = priceOf(entry, action.side);
  const reason = _reason({ action, entry, close, closing, age, prob, closeProb, tick_seq, ts_ms, window });
  const scored = reason === "scored";
  return {
    agent_id,
    clv_bps: scored ? closeProb - prob : null,
    close_kind: close ? close.close_kind : null,
    close_prob_bps: closeProb,
    closing_age_ms: age,
    confidence_ppm: decision.untrusted.confidence_ppm,
    edge_bps: scored ? edgeBps(prob, odds, closeProb) : null,
    entry_prob_bps: prob,
    fixture_id,
    market_key: action.market_key,
    odds_milli: odds,
    reason,
    seq,
    side: action.side,
    tick_seq,
    valid: ["scored", "wait_unscored", "pending_horizon"].includes(reason),
  };
}

// One decision has one reason: the first that applies.
function _reason({ action, entry, close, closing, age, prob, closeProb, tick_seq, ts_ms, window }) {
  if (action.type === "WAIT") return "wait_unscored";
  if (action.market_key === null) return "market_key_missing";
  if (action.side === null) return "side_missing";
  if (!allowedBy(window.market_allowlist, action.market_key)) return "market_not_allowed";
  if (close && tick_seq >= close.end_seq) return "outside_window";
  if (!entry) return "entry_market_absent";
  if (entry.suspended) return "entry_suspended";
  if (prob === null) return "entry_side_missing";
  if (!closing) return "closing_market_absent";
  if (closing.suspended) return "closing_suspended";
  if (window.max_close_age_s !== undefined && age > 1000 * window.max_close_age_s) return "closing_stale";
  if (closeProb === null) return "closing_side_missing";
  if (close.close_ts_ms - ts_ms < 1000 * window.min_clv_horizon_s) return "pending_horizon";
  return "scored";
}
