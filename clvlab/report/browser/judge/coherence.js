// Agreement between lines. A fixture has one sequence of messages, each about one market and at one time. A state is the last
// message of its market. One tape must be able to give all lines together.

const LAST_OPEN_MAX_AGE_MS = 300_000;

function checkCoherence(evidence) {
  const messages = _messagesOf(evidence);
  _checkTimes(evidence, messages);
  const markets = _numbersByMarket(messages);
  const none = { all: [], open: [] };
  for (const { seq, action, fixture_id, tick_seq, market_state: state } of evidence.decisions) {
    if (action.type !== "BACK" || action.market_key === null) continue;
    const last = lastUpTo((markets.get(marketOf(fixture_id, action.market_key)) ?? none).all, tick_seq);
    const own = state ? state.tick_seq : null;
    require(own === last, () => `seq ${seq}: the last message of its market by then is ${last}, and not its state`);
  }
  const lastOpenCounts = evidence.started.window.closing_policy === "last_open";
  for (const [key, { fixture_id, market_key, end_seq, close_ts_ms, closing }] of evidence.closes) {
    const { all, open } = markets.get(key) ?? none;
    let last = lastUpTo(all, end_seq - 1);
    const lastOpen = lastOpenCounts ? lastUpTo(open, end_seq - 1) : null;
    if (lastOpen !== null) {
      const age = close_ts_ms - messages.get(fixture_id).get(lastOpen).state.ts_ms;
      if (age <= LAST_OPEN_MAX_AGE_MS) last = lastOpen;
    }
    const own = closing ? closing.tick_seq : null;
    require(own === last, () => `${market_key} of ${fixture_id} closes with message ${own}, inside the window it had message ${last}`);
  }
}

// The last of some sorted numbers up to a bound; null if all are above it.
function lastUpTo(numbers, bound) {
  const count = countUpTo(numbers, bound);
  return count ? numbers[count - 1] : null;
}

function countUpTo(numbers, bound) {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] <= bound) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Every message that a line shows, by fixture and then by number, with its market and state.
function _messagesOf({ decisions, closes }) {
  const messages = new Map();
  const sidesOf = new Map();
  const see = (fixture, market, state) => {
    if (!state) return;
    const key = marketOf(fixture, market);
    const names = state.sides.map((side) => side.side);
    if (!messages.has(fixture)) messages.set(fixture, new Map());
    if (!sidesOf.has(key)) sidesOf.set(key, names);
    const always = sidesOf.get(key);
    const own = messages.get(fixture);
    if (!own.has(state.tick_seq)) own.set(state.tick_seq, { market, state });
    const first = own.get(state.tick_seq);
    const holds =
      first.market === market &&
      _sameState(first.state, state) &&
      names.length > 1 &&
      names.length === always.length &&
      names.every((name, at) => name === always[at]) &&
      (state.suspended || state.sides.some((side) => side.prob_bps !== null));
    require(
      holds,
      () =>
        `tick ${state.tick_seq} of fixture ${fixture} must be one message about one market, which always has the same sides, ` +
        "two at least, and is suspended if it has no probability",
    );
  };
  for (const { fixture_id, action, market_state } of decisions) see(fixture_id, action.market_key, market_state);
  for (const { fixture_id, market_key, closing } of closes.values()) see(fixture_id, market_key, closing);
  return messages;
}

function _sameState(one, two) {
  if (one === two) return true;
  return (
    one.ts_ms === two.ts_ms &&
    one.suspended === two.suspended &&
    one.sides.length === two.sides.length &&
    one.sides.every(({ side, prob_bps, odds_milli }, at) => {
      const other = two.sides[at];
      return side === other.side && prob_bps === other.prob_bps && odds_milli === other.odds_milli;
    })
  );
}

// Sorted numbers of the messages of each market: of all, and of the open ones.
function _numbersByMarket(messages) {
  const markets = new Map();
  for (const [fixture, own] of messages) {
    for (const number of [...own.keys()].sort((one, two) => one - two)) {
      const { market, state } = own.get(number);
      const key = marketOf(fixture, market);
      if (!markets.has(key)) markets.set(key, { all: [], open: [] });
      markets.get(key).all.push(number);
      if (!state.suspended) markets.get(key).open.push(number);
    }
  }
  return markets;
}

// One time for each tick, times that never fall, and windows that end where those times say.
function _checkTimes({ started, decisions, closes }, messages) {
  const times = new Map(started.binding.fixture_ids.map((fixture) => [fixture, new Map()]));
  const tell = (fixture, number, ts_ms) => {
    const own = times.get(fixture);
    if (!own.has(number)) own.set(number, ts_ms);
    require(own.get(number) === ts_ms, () => `tick ${number} of fixture ${fixture} has two times`);
  };
  for (const [fixture, own] of messages) for (const [number, { state }] of own) tell(fixture, number, state.ts_ms);
  const ends = new Map([...closes.values()].map((close) => [close.fixture_id, close]));
  for (const [fixture, { close_kind, end_seq, close_ts_ms }] of ends) {
    if (close_kind === "in_running") tell(fixture, end_seq, close_ts_ms);
    if (close_kind === "tape_end" || close_kind === "stop") tell(fixture, end_seq - 1, close_ts_ms);
  }
  for (const { fixture_id, tick_seq, ts_ms } of decisions) tell(fixture_id, tick_seq, ts_ms);
  const durationMs = 1000 * (started.window.duration_s ?? 0);
  for (const [fixture, own] of times) {
    const end = ends.get(fixture);
    let before = 0;
    for (const number of [...own.keys()].sort((one, two) => one - two)) {
      const ts_ms = own.get(number);
      const fits = number >= 0 && number < 2 ** 31 && before <= ts_ms && (!end || _asClosed(end, number, ts_ms, durationMs));
      require(
        fits,
        () =>
          `tick ${number} of fixture ${fixture} must have 31 bits, be no earlier than the one before, and be inside or outside ` +
          "its window as its close says",
      );
      before = ts_ms;
    }
  }
}

// Whether the kind of the close allows a tick to be inside or outside the window.
function _asClosed({ close_kind, end_seq, close_ts_ms }, number, ts_ms, durationMs) {
  const inside = number < end_seq;
  if (close_kind === "kickoff") return inside === ts_ms < close_ts_ms;
  if (close_kind === "duration") return inside === ts_ms <= close_ts_ms && close_ts_ms - durationMs <= ts_ms;
  return close_kind === "in_running" || inside;
}
