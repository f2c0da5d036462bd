// The worker: it holds the files and its results, and answers one question after the other.

let held = null; // the last judged run; `original` has the parts before bytes were changed
let ready = null;
let turn = Promise.resolve(); // one question at a time, in order

const QUESTIONS = { judge, judgeAgain, rows, alter, restore, transaction };

self.onmessage = ({ data }) => {
  turn = turn.then(() => answer(data));
};

async function answer({ id, question, given }) {
  const report = (progress) => self.postMessage({ id, progress });
  try {
    await (ready ??= selfTest());
    self.postMessage({ id, answer: await QUESTIONS[question](given, report) });
  } catch (error) {
    const refused = error instanceof NoInput || error instanceof Broken;
    const noRun = error instanceof NoRun;
    self.postMessage({ id, noRun, refused: refused ? error.message : `this page failed: ${error?.message ?? error}` });
  }
}

function askingOf({ trust, required, withoutWitness }) {
  return { trust: trust ? readTrust(trust) : NO_TRUST, required, withoutWitness };
}

// The files stay, even if the keys can't be read: the reader can correct the keys, and ask again.
async function judge(given, report) {
  const files = await Promise.all(given.files.map(readFile));
  requireRun(files.filter((file) => !isTicks(file)));
  held = { files, ticks: files.find(isTicks), original: null, parts: null };
  return judgeAgain(given, report);
}

// One file that is neither a part of a run nor a disclosure must be a bundle.
function requireRun(files) {
  if (files.length !== 1 || PARTS.includes(files[0].name) || isDisclosure(files[0].bytes)) return;
  const other = noRun(files[0].bytes);
  if (other) throw new NoRun(`${files[0].name} is ${other}`);
}

// A file that is larger than its limit is not read at all.
async function readFile(file) {
  const limit = PART_LIMITS[file.name] ?? MAX_BYTES;
  if (file.size > limit) throw new NoInput(`${file.name} has more than ${grouped(limit)} bytes`);
  try {
    return { name: file.name, bytes: new Uint8Array(await file.arrayBuffer()) };
  } catch (error) {
    throw new NoInput(`the files can't be read (${error.message})`);
  }
}

// Judge with other keys, or with other proofs required.
async function judgeAgain(given, report) {
  if (!held) throw new NoInput("no run was chosen yet");
  held.asking = askingOf(given);
  if (held.parts) held.result = await verifyParts(held.parts, held.asking, report, held.ticks);
  else held.result = await verify(held.files, held.asking, report);
  held.original ??= held.result.parts ?? null;
  held.parts ??= held.original;
  return shown(held.result);
}

// Change one bit of a part, and judge the result; a bundle gets a header that fits.
async function alter({ part, at, bit }, report) {
  if (!held?.original) throw new NoInput("there are no parts to change");
  const bytes = held.original[part].slice();
  const [before, context] = [bytes[at], around(bytes, at)];
  bytes[at] ^= 1 << bit;
  held.parts = { ...held.original, [part]: bytes };
  held.result = await verifyParts(held.parts, held.asking, report, held.ticks);
  return { ...shown(held.result), altered: { part, at, line: lineOf(bytes, at), before, after: bytes[at], ...context } };
}

async function restore(_, report) {
  held.parts = held.original;
  held.result = await verifyParts(held.parts, held.asking, report, held.ticks);
  return shown(held.result);
}

// Text around a byte, as far as it is printable.
function around(bytes, at) {
  const plain = (from, to) => Array.from(bytes.subarray(from, to), (byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : "\u00b7"));
  return { left: plain(Math.max(0, at - 24), at).join(""), right: plain(at + 1, at + 25).join("") };
}

function lineOf(bytes, at) {
  let line = 1;
  for (let feed = bytes.indexOf(10); feed >= 0 && feed < at; feed = bytes.indexOf(10, feed + 1)) line += 1;
  return line;
}

// The answer without the files and the rows, which stay here.
function shown({ parts, evidence, rows: all, ...result }) {
  const sizes = Object.fromEntries(Object.entries(parts ?? {}).map(([name, bytes]) => [name, bytes.length]));
  const passed = Object.fromEntries(Object.keys(result.checks).map((name) => [name, passedText(name)]));
  const agents = evidence?.started.agents.map((agent) => agent.agent_id) ?? [];
  const about = evidence && { mode: evidence.started.mode_label, pack: evidence.started.binding.pack_id };
  return { ...result, sizes, passed, agents, about, decisions: all?.length ?? 0 };
}

// Some rows of the table: each score with the two states that it comes from.
function rows({ from, to }) {
  const { evidence, rows: all } = held.result;
  return all.slice(from, to).map((row, at) => {
    const { action, market_state: entry, ts_ms } = evidence.decisions[from + at];
    const close = action.type !== "BACK" || row.market_key === null ? null : evidence.closes.get(marketOf(row.fixture_id, row.market_key));
    const times = { ts_ms, close_ts_ms: close?.close_ts_ms ?? null, entry_tick: entry?.tick_seq ?? null };
    return { ...row, type: action.type, ...times, close_tick: close?.closing?.tick_seq ?? null };
  });
}

// A single transaction, as in an anchor.
async function transaction({ bytes }) {
  const { signature, memos } = await readTransaction(bytes);
  return { signature, memos: memos.map(({ memo, signers }) => ({ memo: hexOf(memo), signers })) };
}
