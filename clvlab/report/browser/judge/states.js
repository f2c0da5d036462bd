// Prices: every state and close in the evidence, derived again from the ticks of the pack: a CSV with a line per side of a message.

const _INTEGERS = ["fixture_id", "tick_seq", "ts_ms"];
const _NULLABLE = ["prob_bps", "odds_milli", "kickoff_ts_ms"];
const _FLAGS = ["in_running", "suspended"];

// Records of a CSV (RFC 4180): fields may be in quotes, with inner quotes doubled, and may contain commas and line ends.
function _recordsOf(source) {
  const records = [];
  let record = [];
  const field = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n|\n|\r|$)/gy;
  for (let at = 0; at < source.length; at = field.lastIndex) {
    field.lastIndex = at;
    const found = field.exec(source);
    if (!found) throw new NoInput(`the ticks are not CSV at character ${at + 1}`);
    const [, quoted, bare, end] = found;
    record.push(quoted === undefined ? bare : quoted.replaceAll('""', '"'));
    if (end === "," && field.lastIndex < source.length) continue;
    if (end === ",") record.push("");
    if (record.length > 1 || record[0] !== "") records.push(record);
    record = [];
  }
  return records;
}

function _rowsOf(bytes) {
  let source;
  try {
    source = textOf(bytes);
  } catch {
    throw new NoInput("the ticks are not UTF-8 text");
  }
  const [head = [], ...records] = _recordsOf(source);
  const wrong = (name, value) => new NoInput(`the ticks have ${value === undefined ? "no" : `${JSON.stringify(value)} as`} ${name}`);
  const whole = (name, value) => {
    if (value === undefined || !/^-?\d{1,16}$/.test(value)) throw wrong(name, value);
    return Number(value);
  };
  return records.map((record) => {
    const field = (name) => record[head.lastIndexOf(name)];
    const row = {};
    for (const name of ["market_key", "side"]) row[name] = field(name);
    for (const name of _INTEGERS) row[name] = whole(name, field(name));
    for (const name of _NULLABLE) row[name] = field(name) === "" ? null : whole(name, field(name));
    for (const name of _FLAGS) row[name] = { true: true, false: false }[field(name)?.toLowerCase()];
    const missing = Object.keys(row).find((name) => row[name] === undefined);
    if (missing) throw wrong(missing, field(missing));
    return row;
  });
}

// Fixtures by number: kickoff, ticks in order, and for each market its states in order.
function readTicks(bytes) {
  const fixtures = new Map();
  const keyOf = (row) => [row.fixture_id, row.tick_seq, row.market_key, row.side];
  const message = ({ ts_ms, in_running, market_key, suspended, kickoff_ts_ms }) =>
    canonical([ts_ms, in_running, market_key, suspended, kickoff_ts_ms]);
  let before = null;
  for (const row of _rowsOf(bytes).sort((one, two) => compareKeys(keyOf(one), keyOf(two)))) {
    const { fixture_id, tick_seq, ts_ms, market_key, suspended } = row;
    if (!fixtures.has(fixture_id)) fixtures.set(fixture_id, { kickoff: row.kickoff_ts_ms, ticks: [], markets: new Map() });
    const { ticks, markets } = fixtures.get(fixture_id);
    if (!markets.has(market_key)) markets.set(market_key, []);
    if (ticks.at(-1)?.tick_seq !== tick_seq) {
      ticks.push(row);
      markets.get(market_key).push({ sides: [], suspended, tick_seq, ts_ms });
    } else if (before !== message(row)) {
      throw new NoInput(`tick ${tick_seq} of fixture ${fixture_id} is more than one message`);
    }
    before = message(row);
    const { odds_milli, prob_bps, side } = row;
    markets.get(market_key).at(-1).sides.push({ odds_milli, prob_bps, side });
  }
  return fixtures;
}

// The end of a fixture's window: the first tick outside, the time of the close, and its kind.
function _windowEnd({ ticks, kickoff }, { end_rule, duration_s }) {
  const last = ticks.at(-1);
  const firstThat = (holds) => ticks.find(holds)?.tick_seq ?? last.tick_seq + 1;
  if (end_rule === "manual_stop") return { end_seq: last.tick_seq + 1, close_ts_ms: last.ts_ms, close_kind: "stop" };
  if (end_rule === "fixed_duration") {
    const limit = ticks[0].ts_ms + 1000 * duration_s;
    return { end_seq: firstThat((tick) => tick.ts_ms > limit), close_ts_ms: Math.min(limit, last.ts_ms), close_kind: "duration" };
  }
  const running = ticks.find((tick) => tick.in_running);
  if (running) return { end_seq: running.tick_seq, close_ts_ms: running.ts_ms, close_kind: "in_running" };
  if (kickoff !== null) return { end_seq: firstThat((tick) => tick.ts_ms >= kickoff), close_ts_ms: kickoff, close_kind: "kickoff" };
  return { end_seq: last.tick_seq + 1, close_ts_ms: last.ts_ms, close_kind: "tape_end" };
}

// The state in which a market closes; `last_open` looks back over a suspension for at most 300 s.
function _closingState(states, { end_seq, close_ts_ms }, policy) {
  const inside = states.filter((state) => state.tick_seq < end_seq);
  const last = inside.at(-1) ?? null;
  if (policy !== "last_open" || !last?.suspended) return last;
  const open = inside.filter((state) => !state.suspended).at(-1);
  return open && close_ts_ms - open.ts_ms <= LAST_OPEN_MAX_AGE_MS ? open : last;
}

function checkStates({ started, decisions, closes }, fixtures) {
  const book = started.window.close_source;
  require(book === undefined, () => `the states are those of the book '${book}', but the ticks have only the consensus: clvlab verify --pack looks them up`);
  const times = new Map([...fixtures].map(([fixture, { ticks }]) => [fixture, new Map(ticks.map((tick) => [tick.tick_seq, tick.ts_ms]))]));
  const numbersOf = new Map(); // the numbers of each market, looked up once
  let states = 0;
  for (const { seq, fixture_id, tick_seq, ts_ms, action, market_state } of decisions) {
    const time = times.get(fixture_id)?.get(tick_seq);
    require(time === ts_ms, () => `seq ${seq}: tick ${tick_seq} of ${fixture_id} is at ${time}, not ${ts_ms}`);
    const own = (action.type === "BACK" && fixtures.get(fixture_id).markets.get(action.market_key)) || [];
    if (!numbersOf.has(own)) numbersOf.set(own, own.map((state) => state.tick_seq));
    const state = own[countUpTo(numbersOf.get(own), tick_seq) - 1] ?? null;
    const expected = canonical(state && { age_ms: ts_ms - state.ts_ms, ...state });
    require(canonical(market_state) === expected, () => `seq ${seq}: the ticks say ${expected}`);
    states += state ? 1 : 0;
  }
  for (const close of closes.values()) {
    const { fixture_id, market_key } = close;
    const fixture = fixtures.get(fixture_id);
    const end = _windowEnd(fixture, started.window);
    const closing = _closingState(fixture.markets.get(market_key) ?? [], end, started.window.closing_policy);
    const expected = canonical({ ...end, closing, fixture_id, market_key });
    require(canonical(close) === expected, () => `${market_key} of ${fixture_id}: the ticks say ${expected}`);
  }
  return { states, closes: closes.size };
}
