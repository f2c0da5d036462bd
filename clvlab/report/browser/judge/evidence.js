// Reading events.jsonl: one RUN_STARTED, then decisions, errors of agents, closes of markets, and RUN_SEALED, which counts them.
// `Evidence` is {started, decisions: [{seq, ...payload}], closes: Map of fixture and market}.

const KINDS = Object.keys(PAYLOADS);
const marketOf = (fixture, market) => `${fixture} ${market}`; // a fixture is a number, so no two markets have the same text

function readEvent(source, kind, where) {
  const shape = (event) => _isEvent(event) && event.kind === kind && PAYLOADS[kind](event.payload);
  return shaped(source, shape, `${where}, a ${kind},`);
}

const _isEvent = keyed({ kind: text, payload: isObject, seq: count });

function readStarted(source) {
  const event = readEvent(source, "RUN_STARTED", "line 1");
  require(event.seq === 0, "line 1 has another seq than 0");
  const agents = event.payload.agents.map((agent) => ({ ...agent, config: {} }));
  const bare = bytesOf(canonical({ ...event, payload: { ...event.payload, agents } })).length;
  require(
    bare <= MAX_LINE_BYTES,
    `RUN_STARTED has ${grouped(bare)} bytes without its agents' configurations, the limit is ${grouped(MAX_LINE_BYTES)}`,
  );
  return event.payload;
}

// Read all events; `progress` sometimes receives their number so far.
function readEvidence(bytes, progress = () => {}) {
  require(bytes.length && bytes[bytes.length - 1] === 10, "events.jsonl is empty or does not end with a line feed");
  const total = checkLines(bytes, "events.jsonl", MAX_STARTED_BYTES);
  const lines = eachLine(bytes);
  const found = { RUN_STARTED: [readStarted(lines.next().value)], DECISION: [], AGENT_ERROR: [], MARKET_CLOSE: [], RUN_SEALED: [] };
    let stage = 1; // the kinds come in this order, so after a line only its kind and later kinds may come
  let seq = 0;
  for (const source of lines) {
    seq += 1;
    const where = `line ${seq + 1}`;
    const line = textOf(source);
    const kind = /^\{"kind":"([A-Z_]+)"/.exec(line)?.[1];
    const at = KINDS.indexOf(kind);
    require(at >= stage, () => `${where} is of no kind, or out of order: ${JSON.stringify(line.slice(0, 60))}`);
    stage = at;
    const event = readEvent(line, kind, where);
    require(event.seq === seq, () => `${where} has seq ${event.seq}`);
    if (kind === "DECISION") event.payload.seq = seq;
    found[kind].push(event.payload);
    require(kind !== "AGENT_ERROR" || found[kind].length <= found.RUN_STARTED[0].agents.length, "more agents failed than RUN_STARTED names");
    if (seq % 4096 === 0) progress(seq, total);
  }
  const counts = { agent_errors: found.AGENT_ERROR.length, decisions: found.DECISION.length, market_closes: found.MARKET_CLOSE.length };
  const [sealed] = found.RUN_SEALED;
  const counted = found.RUN_SEALED.length === 1 && Object.entries(counts).every(([name, number]) => sealed[name] === number);
  require(counted, `RUN_SEALED must come once, and count ${canonical(counts)}`);
  const closes = new Map(found.MARKET_CLOSE.map((close) => [marketOf(close.fixture_id, close.market_key), close]));
  require(closes.size === counts.market_closes, "a market closes twice");
  const evidence = { started: found.RUN_STARTED[0], decisions: found.DECISION, closes };
  checkStarted(evidence.started, "content_hash" in sealed);
  checkErrors(found.AGENT_ERROR.map((error) => error.agent_id), evidence);
  checkRules(evidence);
  return evidence;
}

// Rules of decisions and closes, for all lines or for those of one decision.
function checkRules(evidence) {
  checkDecisions(evidence);
  checkCloses(evidence);
  checkCoherence(evidence);
}

// Rules of RUN_STARTED that its shape does not contain. `captured`: whether RUN_SEALED names the pack that a live run captured.
function checkStarted(started, captured) {
  const { agents, binding, policy, window } = started;
  const live = started.source_mode === "live";
  const allowlists = [window.market_allowlist, policy.market_allowlist, policy.venue_allowlist];
  const windowIdBytes = bytesOf(window.window_id).length;
  const closeSourceBytes = bytesOf(window.close_source ?? "-").length;
  requireAll(
    [
      ["agents are named once, in byte order", agents.length && ascending(agents.map((agent) => agent.agent_id))],
      ["duration_s goes with fixed_duration", (window.duration_s === null) === (window.end_rule !== "fixed_duration")],
      ["window_id has 1 to 200 bytes", windowIdBytes >= 1 && windowIdBytes <= 200],
      ["close_source has 1 to 200 bytes", closeSourceBytes >= 1 && closeSourceBytes <= 200],
      ["an allowlist has at most 1000 entries", allowlists.every((list) => list.length <= 1000)],
      ["files that an agent could read are named in order", agents.every((agent) => readsInOrder(agent.reads))],
      ["a run is labelled as what it is fed with", started.mode_label === MODES[started.source_mode]],
      ["a live run is bound to no pack before it began", !live || (binding.pack_id === null && binding.content_hash === null)],
      ["RUN_SEALED names the pack that was captured of a live run, and of no other", captured === live],
      ["agents of a live run decided live, and no others", agents.every((agent) => (agent.causality === "live") === live)],
      ["a run has the first schema that can express it", started.schema === `clvlab-run/${saysMore(started) ? 2 : 1}`],
      ["what was held of agents is named in order, and of all that were asked step by step", isHeld(started)],
      ["some probability is allowed", policy.min_prob_bps <= policy.max_prob_bps],
    ],
    "RUN_STARTED",
  );
}

// Whether RUN_STARTED contains something that the first schema cannot express.
function saysMore(started) {
  return "isolation" in started || hasNewLabel(started);
}

const hasNewLabel = (started) => started.agents.some((agent) => SINCE_TWO.includes(agent.causality));

// `isolation` is either missing, or names some agents of the run, in order, each with some restrictions, in order.
function isHeld({ agents, isolation }) {
  const stated = isolation ?? [];
  const known = new Set(agents.map((agent) => agent.agent_id));
  const held = new Map(stated.map((one) => [one.agent_id, one.held]));
  return (
    (isolation === undefined || stated.length > 0) &&
    stated.every((one) => known.has(one.agent_id) && one.held.length > 0 && ascending(one.held)) &&
    ascending(stated.map((one) => one.agent_id)) &&
    agents
      .filter((agent) => ["stepped", "stepped-blocks"].includes(agent.causality))
      .every((agent) => ["calls", "files"].every((name) => held.get(agent.agent_id)?.includes(name)))
  );
}

// Files are either missing, or some, in order of name and hash.
function readsInOrder(reads) {
  if (reads === undefined) return true;
  const keys = reads.map((read) => [read.name, read.sha256]);
  return keys.length > 0 && keys.every((key, at) => !at || compareKeys(keys[at - 1], key) <= 0);
}

function checkErrors(failed, evidence) {
  const agents = new Set(evidence.started.agents.map((agent) => agent.agent_id));
  const names = new Set(failed);
  requireAll(
    [
      ["failed agents are named by RUN_STARTED, and not all of them", failed.every((name) => agents.has(name)) && names.size < agents.size],
      ["an agent fails once, in byte order", ascending(failed)],
      ["an agent that failed decided nothing", !evidence.decisions.some((decision) => names.has(decision.agent_id))],
    ],
    "AGENT_ERROR",
  );
}
