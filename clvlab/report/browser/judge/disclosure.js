// A disclosure: one decision and its score, with lines under the roots of the manifest. The other decisions stay hidden.

const DISCLOSED_KINDS = { started: "RUN_STARTED", decision: "DECISION", close: "MARKET_CLOSE", sealed: "RUN_SEALED" };

function isDisclosure(bytes) {
  const start = String.fromCharCode(...bytes.subarray(0, 12));
  return start.startsWith('{"close":') || start.startsWith('{"decision":');
}

async function checkDisclosure(bytes, result) {
  const old = statedBy(bytes).schema === "clvlab-disclosure/1";
  require(!old, "clvlab-disclosure/1 shows neither window nor close, so its score can't be judged: ask for clvlab-disclosure/2");
  const disclosed = shaped(bytes, DISCLOSURE, "the disclosure");
  const manifest = shaped(disclosed.manifest, MANIFEST, "the manifest");
  for (const name of [...Object.keys(DISCLOSED_KINDS), "score"]) {
    if (!disclosed[name]) continue;
    const { index, line, proof, size } = disclosed[name];
    const limit = name === "started" ? MAX_STARTED_BYTES : MAX_LINE_BYTES;
    require(bytesOf(line).length <= limit, `the line of the ${name} has more than ${grouped(limit)} bytes`);
    const [root, leaves] = name === "score" ? ["score_root", size] : ["evidence_root", manifest.event_count];
    const found = rootByInclusion(leafOf(bytesOf(line)), index, size, proof.map(fromHex));
    const stands = size === leaves && `sha256:${hexOf(found)}` === manifest[root];
    require(stands, `the line of the ${name} is not under the ${root}`);
  }
  const started = readStarted(disclosed.started.line);
  const payloads = {};
  for (const name of ["decision", "close", "sealed"]) {
    if (!disclosed[name]) continue;
    const event = readEvent(disclosed[name].line, DISCLOSED_KINDS[name], `the ${name}`);
    require(event.seq === disclosed[name].index, `the ${name} has another seq than its place`);
    payloads[name] = event.payload;
  }
  const { decision, close, sealed } = payloads;
  const seq = disclosed.decision.index;
  decision.seq = seq;
  const closes = new Map(close ? [[marketOf(close.fixture_id, close.market_key), close]] : []);
  const evidence = { started, decisions: [decision], closes };
  checkStarted(started, "content_hash" in sealed);
  checkRules(evidence);
  await checkIds(started);
  const named = await namedBy(started);
  const [row] = scoreRows(evidence);
  const { decisions: last, agent_errors: errors, market_closes } = sealed;
  const lines = 2 + last + errors + market_closes;
  requireAll(
    [
      ["the manifest is about this run", Object.keys(named).every((key) => manifest[key] === named[key])],
      [
        "RUN_STARTED is the first line, RUN_SEALED the last, and it counts all",
        disclosed.started.index === 0 && disclosed.sealed.index + 1 === manifest.event_count && manifest.event_count === lines,
      ],
      ["decisions stand first, and closes last", seq <= last && (!close || disclosed.close.index > last + errors)],
      ["its score is the one that the law gives", disclosed.score.line === canonical(row)],
      ["there is a score for every decision, in their order", disclosed.score.index + 1 === seq && disclosed.score.size === last],
    ],
    `the disclosure of seq ${seq}`,
  );
  result.run_id = manifest.run_id;
  result.evidence_hash = manifest.evidence_hash;
  result.recomputed_evidence_hash = "not at hand";
  result.manifest_hash = await sha256(bytesOf(disclosed.manifest));
  result.evidence = evidence;
  result.rows = [row];
}
