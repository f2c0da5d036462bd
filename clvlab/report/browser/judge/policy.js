// The policy gate: it judges a decision by what was known then, and by the agent's earlier allowed actions. All reasons that apply
// count.

const _isOver = (number, limit) => limit !== null && number > limit;

class Gate {
  constructor(policy) {
    this.policy = policy;
    this.used = new Map(); // an agent's orders, and its stakes on a fixture and on a market
    this.ready = new Map(); // the end of an agent's cooldown on a market
  }

  // Verdict on a BACK; if it is allowed, it counts for later actions.
  verdict({ action, agent_id, fixture_id, market_state: state, tick_seq, ts_ms }) {
    const { policy } = this;
    const keys = {
      agent: canonical([agent_id]),
      fixture: canonical([agent_id, fixture_id]),
      market: canonical([agent_id, fixture_id, action.market_key]),
    };
    const stake = action.stake ?? 0;
    const spent = (key) => this.used.get(key) ?? 0;
    const { prob, odds } = priceOf(state, action.side);
    const quote = state?.suspended ? null : odds;
    const early = {
      kill_switch_on: policy.kill_switch,
      market_not_allowed: !allowedBy(policy.market_allowlist, action.market_key),
      venue_not_allowed: !policy.venue_allowlist.includes("paper"),
      warmup: tick_seq < policy.warmup_ticks,
      cooldown_active: ts_ms < (this.ready.get(keys.market) ?? 0),
      stake_missing: stake === 0,
      stake_over_max: stake > policy.max_stake,
      prob_out_of_range: prob === null || prob < policy.min_prob_bps || prob > policy.max_prob_bps,
      order_cap: _isOver(spent(keys.agent) + 1, policy.max_orders),
      exposure_cap:
        _isOver(spent(keys.fixture) + stake, policy.max_exposure_per_fixture) ||
        _isOver(spent(keys.market) + stake, policy.max_exposure_per_market),
    };
    const late = {
      quote_missing: policy.require_quote && quote === null,
      quote_stale: state !== null && state.age_ms > 1000 * policy.max_quote_age_s,
      slippage_over_max: this.slips(action.limit_odds_milli ?? 0, quote),
      edge_below_min: this.lacksEdge(prob, quote),
      stake_over_max: stake > policy.max_stake,
    };
    const [pre, post] = [_phaseOf(early), _phaseOf(late)];
    if (pre.allowed && post.allowed) {
      this.ready.set(keys.market, ts_ms + 1000 * policy.cooldown_s);
      this.used.set(keys.agent, spent(keys.agent) + 1);
      for (const key of [keys.fixture, keys.market]) this.used.set(key, spent(key) + stake);
    }
    return { post, pre };
  }

  slips(limit, quote) {
    if (!limit || !quote) return false;
    return Math.floor((Math.max(0, limit - quote) * 10_000) / limit) > this.policy.max_slippage_bps;
  }

  // The edge at the entry, of the quote over the consensus; an unknown edge is too small.
  lacksEdge(prob, quote) {
    const least = this.policy.min_edge_bps;
    if (least === null) return false;
    return prob === null || quote === null || edgeBps(prob, quote, prob) < least;
  }
}

function _phaseOf(rules) {
  const reasons = Object.keys(rules).filter((reason) => rules[reason]);
  return { allowed: !reasons.length, reasons };
}

// Require the sealed verdicts to equal the derived ones, and every receipt to have an allowed action; count both.
function checkPolicy({ parts, evidence }) {
  const { started, decisions } = evidence;
  const gate = new Gate(started.policy);
  const allowed = new Map();
  let judged = 0;
  for (const decision of decisions) {
    if (decision.action.type !== "BACK") continue;
    const verdict = gate.verdict(decision);
    const same = canonical(decision.policy) === canonical(verdict);
    require(same, () => `seq ${decision.seq}: the policy gives ${canonical(verdict)}`);
    judged += 1;
    if (verdict.pre.allowed && verdict.post.allowed) allowed.set(decision.seq, decision);
  }
  const counted = { "BACKs judged": judged, allowed: allowed.size };
  const receipts = parts["receipts.jsonl"] ?? new Uint8Array(0);
  require(!receipts.length || receipts[receipts.length - 1] === 10, "receipts.jsonl does not end with a line feed");
  const lines = checkLines(receipts, "receipts.jsonl");
  for (const line of eachLine(receipts)) {
    const receipt = shaped(line, RECEIPT, "a receipt");
    const decision = allowed.get(receipt.decision_seq);
    allowed.delete(receipt.decision_seq);
    requireAll(
      [
        ["the run asks a venue", started.policy.execution_mode === "paper"],
        ["it is of this run", receipt.run_id === started.run_id],
        ["its action was allowed, and has no other receipt", decision],
        ["it is of the same agent", receipt.agent_id === decision?.agent_id],
        ["its stake is at most the action's", receipt.stake <= (decision?.action.stake ?? -1)],
        ["its venue is allowed", started.policy.venue_allowlist.includes(receipt.venue)],
      ],
      `a receipt for seq ${receipt.decision_seq}`,
    );
  }
  return { ...counted, receipts: lines };
}
