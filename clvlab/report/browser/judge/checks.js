// The checks of a run, each with its sentence for a pass. `verify` gives the same answers as clv_verify.py: hashes; for each check
// the fault or null; and the proofs that are not judged, with reasons. It adds the numbers of each check.

const CHECKS = {
  evidence_integrity: [checkIntegrity, "events.jsonl is canonical, complete, in order, and has the sealed hash"],
  metrics_recomputed: [checkScores, "every score row follows from the evidence"],
  manifest_bound: [checkManifest, "the manifest binds this run id, evidence and scores"],
  policy_obeyed: [checkPolicy, "every verdict follows from the policy, and every receipt is for an allowed action"],
  receipt_separation: [() => ({}), "no event is a receipt or has a key of one: it could not have been read"],
};
const BUNDLED = [checkContext, "every byte of the bundle is accounted for"];
const PROOFS = {
  anchor: [checkAnchor, "a key you trust signed the manifest hash as a memo, for the chain to take", "anchor_signers"],
  log: [checkLog, "a log you trust holds the commitment to this run, and after it this result", "logs"],
};
const DISCLOSED = "the score follows from this decision and its close, and all stand under the roots that the manifest binds";

function checkIntegrity({ manifest, stated, parts }) {
  const [found, sealed] = [manifest.evidence_hash, stated.evidence_hash];
  require(found === sealed, `SHA-256 of events.jsonl is ${found}, but the sealed hash is ${text(sealed) ? sealed : "missing"}`);
  return { bytes: parts["events.jsonl"].length, lines: manifest.event_count, recomputed: found, sealed };
}

function checkScores({ parts, scores, rows }) {
  const stored = parts["scores.jsonl"] ?? new Uint8Array(0);
  const same = sameBytes(stored, scores);
  require(same, () => `the ${rows.length} rows derived from the evidence are not the ${countLines(stored)} stored`);
  return { "rows derived": rows.length, scored: rows.filter((row) => row.reason === "scored").length };
}

// The values in a stored manifest; empty if it can't be read.
function statedBy(bytes) {
  try {
    const value = readAnyJson(bytes);
    return isObject(value) ? value : {};
  } catch (error) {
    if (error instanceof Broken) return {};
    throw error;
  }
}

const unread = () => ({
  run_id: "unread",
  evidence_hash: "unread",
  recomputed_evidence_hash: "unread",
  manifest_hash: "unread",
  verified: false,
  without: {},
  log: null,
  bundle_states_unsigned: null,
  checks: {},
  numbers: {},
});

// Check a bundle or disclosure (one file), or the files of a run folder. `asking` has `trust`, the `required` proofs, and
// `withoutWitness`, which accepts a required log without a witness; alone, its operator can keep two logs.
async function verify(given, asking, report) {
  const files = given.filter((file) => !isTicks(file));
  if (!files.length) throw new NoInput("choose a bundle, a disclosure or the files of a run, together with the ticks");
  if (files.length === 1 && isDisclosure(files[0].bytes)) return verifyDisclosure(files[0].bytes, asking.required);
  const folder = files.length > 1 || PARTS.includes(files[0].name);
  let parts;
  try {
    parts = folder ? partsOfFolder(files) : await partsOfBundle(files[0].bytes);
  } catch (error) {
    if (!(error instanceof Broken)) throw error;
    return { ...unread(), checks: { bundle: error.message } };
  }
  return verifyParts(parts, asking, report, given.find(isTicks));
}

const isTicks = (file) => file.name.endsWith(".csv");

async function verifyParts(parts, { trust, required, withoutWitness }, report, ticks) {
  const result = { ...unread(), parts };
  const stated = statedBy(parts["manifest.json"]);
  result.run_id = stated.run_id ?? null;
  result.evidence_hash = stated.evidence_hash ?? null;
  const events = parts["events.jsonl"];
  let evidence;
  const unreadable = await faultOf(() => {
    evidence = readEvidence(events, (seq, of) => report({ step: "reading the evidence", done: seq / of }));
  });
  if (unreadable !== null) {
    result.recomputed_evidence_hash = `recompute_error:${unreadable}`;
    result.manifest_hash = await sha256(parts["manifest.json"]);
    const names = [...Object.keys(CHECKS), ...(ticks ? ["states_from_ticks"] : [])];
    for (const name of names) result.checks[name] = `the evidence can't be read: ${unreadable}`;
    return result;
  }
  report({ step: "scoring", done: 1 });
  const rows = scoreRows(evidence);
  const scores = bytesOf(rows.map((row) => `${canonical(row)}\n`).join(""));
  report({ step: "building Merkle trees", done: 1 });
  const manifest = await rebuiltManifest({ events, started: evidence.started, scores, commitIndex: stated.commit_index });
  const manifestHash = await sha256(bytesOf(canonical(manifest)));
  const quorum = Math.max(trust.witness_quorum, required.includes("log") && !withoutWitness ? 1 : 0);
  const whom = { ...trust, witness_quorum: quorum };
  const run = { parts, stated, evidence, rows, scores, manifest, manifestHash, trust: whom, standing: null, unsigned: null };
  Object.assign(result, { recomputed_evidence_hash: manifest.evidence_hash, manifest_hash: manifestHash, evidence, rows });
  for (const [name, [check]] of _asked(run, required, result.without)) {
    report({ step: `checking ${name}`, done: 1 });
    result.checks[name] = await faultOf(async () => {
      result.numbers[name] = await check(run);
    });
  }
  for (const name of required.filter((one) => one in result.without)) {
    result.checks[name] = result.without[name];
    delete result.without[name];
  }
  if (ticks) {
    report({ step: "deriving prices from the ticks", done: 1 });
    const fixtures = readTicks(ticks.bytes);
    result.checks.states_from_ticks = await faultOf(() => {
      result.numbers.states_from_ticks = checkStates(evidence, fixtures);
    });
  }
  result.log = run.standing;
  result.bundle_states_unsigned = run.unsigned;
  result.verified = result.checks.evidence_integrity === null;
  return result;
}

// The checks to make; `without` gets the reason for each proof that is not judged.
function _asked({ parts, trust, evidence }, required, without) {
  const asked = Object.entries(CHECKS);
  if (parts["context.json"]) asked.push(["bundle", BUNDLED]);
  for (const [name, proof] of Object.entries(PROOFS)) {
    const here = `${name}.json` in parts;
    if (here && Object.keys(trust[proof[2]]).length) asked.push([name, proof]);
    else without[name] = here ? "the proof is here, but you trust no key for it" : "the proof is not here";
  }
  if ("stamps.json" in parts) without.stamps = "stamps are here, and a browser does not check them: clvlab verify --tsa-roots does";
  if ("checkpoint.ots" in parts || "earlier.ots" in parts) without.opentimestamps = "proofs of OpenTimestamps are here, and clvlab verify reads them";
  if ("seat.json" in parts) without.seat = "the seat is here, and a browser does not check it: clv_verify.py does";
  else if (evidence.started.kind === "seat") without.seat = "the proof is not here";
  return asked;
}

// A disclosure has no anchor and no log, and only this decision of its run is judged.
async function verifyDisclosure(bytes, required) {
  if (bytes.length > MAX_DISCLOSURE_BYTES) throw new NoInput(`the disclosure has more than ${grouped(MAX_DISCLOSURE_BYTES)} bytes`);
  const result = { ...unread(), disclosure: true };
  for (const name of required) result.checks[name] = "a disclosure holds no such proof";
  result.checks.disclosed = await faultOf(() => checkDisclosure(bytes, result));
  return result;
}

function passedText(name) {
  if (name === "bundle") return BUNDLED[1];
  if (name === "disclosed") return DISCLOSED;
  if (name === "states_from_ticks") return "every state and close in the evidence follows from the ticks";
  return (CHECKS[name] ?? PROOFS[name])[1];
}
