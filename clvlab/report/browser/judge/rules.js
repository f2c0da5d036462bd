// Rules of each decision and each close alone, and of its place among the others.

function _orderOf({ ts_ms, fixture_id, tick_seq, agent_id, action }) {
  const nullable = (name) => [name === null ? 0 : 1, name ?? ""]; // null comes first
  return [ts_ms, fixture_id, tick_seq, agent_id, ...nullable(action.market_key), ...nullable(action.side), action.type];
}

function checkDecisions({ started, decisions }) {
  const agents = new Set(started.agents.map((agent) => agent.agent_id));
  const fixtures = new Set(started.binding.fixture_ids);
  const waits = new Set();
  let before = null;
  for (const decision of decisions) {
    const { action, market_state: state, policy, tick_seq, fixture_id, agent_id } = decision;
    const back = action.type === "BACK";
    const order = _orderOf(decision);
    const tick = `${fixture_id} ${tick_seq} ${agent_id}`;
    const phases = policy ? [policy.pre, policy.post] : [];
    const rules = [
      ["it stands after its predecessor by time, fixture, tick, agent, market, side and action", !before || compareKeys(before, order) < 0],
      ["an agent waits once at a tick", back || !waits.has(tick)],
      ["its agent is of this run", agents.has(agent_id)],
      ["its fixture is replayed", fixtures.has(fixture_id)],
      ["a BACK has verdicts, a WAIT has none", (policy !== null) === back],
      ["a phase is allowed that has no reason", phases.every((phase) => phase.allowed === (phase.reasons.length === 0))],
      ["its state is of a market that it backs", !state || (back && action.market_key !== null)],
      ["its state is of no later tick", !state || state.tick_seq <= tick_seq],
      ["its state is as old as it says", !state || state.ts_ms === decision.ts_ms - state.age_ms],
      ["the sides of its state are in order, and of a suspended market without a probability", sidesFit(state)],
    ];
    requireAll(rules, `seq ${decision.seq}`);
    if (!back) waits.add(tick);
    before = order;
  }
}

// Sides are unique and in byte order; those of a suspended market have no probability.
function sidesFit(state) {
  if (!state) return true;
  const unpriced = !state.suspended || state.sides.every((side) => side.prob_bps === null);
  return unpriced && ascending(state.sides.map((side) => side.side));
}

function checkCloses({ started, decisions, closes }) {
  const named = new Set();
  for (const { action, fixture_id } of decisions) {
    if (action.type === "BACK" && action.market_key !== null) named.add(marketOf(fixture_id, action.market_key));
  }
  const list = [...closes.values()];
  const keys = list.map((close) => [close.fixture_id, close.market_key]);
  const sorted = keys.every((key, at) => !at || compareKeys(keys[at - 1], key) < 0);
  const same = sorted && closes.size === named.size && [...closes.keys()].every((key) => named.has(key));
  require(same, "there must be one MARKET_CLOSE for every market that a BACK names, sorted");
  const ends = new Map();
  for (const close of list) {
    const { closing: state, end_seq, close_ts_ms, close_kind, fixture_id } = close;
    const end = `${end_seq} ${close_ts_ms} ${close_kind}`;
    if (!ends.has(fixture_id)) ends.set(fixture_id, end);
    const rules = [
      ["its kind is one of its end rule", CLOSE_KINDS[started.window.end_rule].includes(close_kind)],
      ["its window ends at a tick of 31 bits", end_seq >= 0 && end_seq <= 2 ** 31],
      ["all markets of a fixture close together", ends.get(fixture_id) === end],
      ["its state lies inside the window", !state || (state.tick_seq < end_seq && state.ts_ms <= close_ts_ms)],
      ["its sides are in order and priced as its suspension says", sidesFit(state)],
    ];
    requireAll(rules, `the close of ${close.market_key} of fixture ${fixture_id}`);
  }
}
