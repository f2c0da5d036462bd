// Parts of a run, from a bundle or from the files of a folder.

const PARTS = ["context.json", "manifest.json", "events.jsonl", "scores.jsonl", "receipts.jsonl", "anchor.json", "log.json", "seat.json", "stamps.json", "commit.tlog-proof", "outcome.tlog-proof", "checkpoint.ots", "earlier.ots"];

// Split a bundle: exactly the listed parts, in order, with these hashes.
async function partsOfBundle(bundle) {
  const feed = bundle.subarray(0, 2 ** 20).indexOf(10);
  const _header = keyed({ parts: listOf(keyed({ name: oneOf(...PARTS), sha256: text, size: count })), schema: oneOf("clvlab-bundle/1") });
  const { parts: listed } = shaped(bundle.subarray(0, Math.max(feed, 0)), _header, "the header of the bundle");
  const names = listed.map((part) => part.name);
  const inOrder = PARTS.filter((name) => names.includes(name)).join() === names.join();
  const ordered = inOrder && PARTS.slice(0, 4).every((name) => names.includes(name));
  require(ordered, `a bundle has the parts ${PARTS.join(", ")} in order, the first four always, not ${names.join(", ")}`);
  const parts = {};
  let at = feed + 1;
  for (const { name, size, sha256: stated } of listed) {
    checkSize(size, name);
    const data = bundle.subarray(at, at + size);
    at += size;
    require(data.length === size && (await sha256(data)) === stated, `${name} is not what the header says`);
    parts[name] = data;
  }
  require(at === bundle.length, `${bundle.length - at} bytes follow the last part`);
  if (parts["anchor.json"]) shaped(parts["anchor.json"], ANCHOR, "the anchor");
  return parts;
}

// Only these files of a run folder count.
function partsOfFolder(files) {
  const parts = {};
  for (const { name, bytes } of files) if (PARTS.slice(1, 5).includes(name)) parts[name] = bytes;
  const whole = parts["manifest.json"] && parts["events.jsonl"];
  if (!whole) throw new NoRun(`${_folderKind(files)}: choose a bundle, or the files manifest.json, events.jsonl and scores.jsonl of a run`);
  const limit = PART_LIMITS["manifest.json"];
  if (parts["manifest.json"].length > limit) throw new NoInput(`manifest.json has more than ${grouped(limit)} bytes`);
  return parts;
}

// Files of other kinds by their first bytes, for a reader who chose the wrong one; as in clv_verify.py.
const OTHER_KINDS = [
  ["\x89PNG", "an image"], ["\xff\xd8\xff", "an image"], ["GIF8", "an image"], ["<svg", "an image"],
  ["PAR1", "a table of a pack"], ['{\n  "$schema": "https://datapackage.org', "the description of a pack"],
  ["PK\x03\x04", "an archive, to be unpacked first"], ["\x1f\x8b", "an archive, to be unpacked first"], ["%PDF", "a PDF"],
  ["SQLite format 3", "a database"], ["<!doctype html", "a web page"], ["<html", "a web page"],
  ['{"kind":"RUN_STARTED"', "the events of a run without its other files"], ['{"type":"urn:', "an error answer of a service"],
];
const CUT = "a bundle that is cut short";

// Say what a file is, if it is no bundle; null for a bundle, whole as it seems.
function noRun(bytes) {
  if (!bytes.length) return "an empty file";
  const start = '{"parts":'.slice(0, bytes.length);
  if (!_latin(bytes, start.length).startsWith(start)) {
    const found = _latin(bytes, 4096).replace(/^[ \t\n\r\x0b\f]+/, "").toLowerCase();
    return OTHER_KINDS.find(([first]) => found.startsWith(first.toLowerCase()))?.[1] ?? "a file of another kind";
  }
  const feed = bytes.subarray(0, 2 ** 20).indexOf(10);
  if (feed < 0) return bytes.length <= 2 ** 20 ? CUT : null;
  try {
    const sizes = JSON.parse(_latin(bytes, feed)).parts.map((part) => part.size);
    const whole = sizes.every(Number.isSafeInteger) ? sizes.reduce((sum, size) => sum + size, feed + 1) : 0;
    return bytes.length < whole ? `${CUT}, with ${grouped(bytes.length)} of ${grouped(whole)} bytes` : null;
  } catch {
    return null; // a bundle, whose header is broken
  }
}

const _latin = (bytes, most) => Array.from(bytes.subarray(0, most), (byte) => String.fromCharCode(byte)).join("");

const _folderKind = (files) => (files.some(({ name }) => name === "datapackage.json" || name.endsWith(".parquet")) ? "these are files of a pack" : "these files are no whole run");

// The context of a bundle must agree with the manifest and the evidence, and files of proofs with log.json.
async function checkContext({ parts, evidence }) {
  const { run_id, binding } = evidence.started;
  const named = { schema: "clvlab-context/1", run_id, manifest_hash: await sha256(parts["manifest.json"]), ...binding };
  const same = sameBytes(parts["context.json"], bytesOf(canonical(named)));
  require(same, "context.json does not say what the manifest and the evidence say");
  for (const name of ["commit", "outcome"]) {
    const file = parts[`${name}.tlog-proof`];
    require(!file || parts["log.json"], `${name}.tlog-proof is here, but log.json is not`);
    if (file) require(sameBytes(file, _proofFile(readCanonical(textOf(parts["log.json"])), name)), `${name}.tlog-proof is not the proof in log.json`);
  }
  return { parts: Object.keys(parts).length };
}

// The proof of an entry as a file of C2SP tlog-proof.
function _proofFile(log, name) {
  const proved = isObject(log) ? log[name] : null;
  const fits = isObject(proved) && count(proved.index) && PROOF(proved.proof) && text(log.checkpoint);
  require(fits, `log.json has no proof of the ${name}`);
  const lines = proved.proof.map((hash) => `${btoa(String.fromCharCode(...fromHex(hash)))}\n`).join("");
  return bytesOf(`c2sp.org/tlog-proof@v1\nindex ${proved.index}\n${lines}\n${log.checkpoint}`);
}
