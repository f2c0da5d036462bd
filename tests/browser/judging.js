// Asked in bulk: every case by the judge's own functions, as its page would.
const _unpacked = (text) => Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
const _silent = () => {};
const _said = (result) => {
  const { run_id, evidence_hash, recomputed_evidence_hash, manifest_hash, verified, without, log, bundle_states_unsigned, checks } = result;
  return { run_id, evidence_hash, recomputed_evidence_hash, manifest_hash, verified, without, log, bundle_states_unsigned, checks };
};
const _asks = {
  run: async ({ files, trust, ...asked }) => {
    const given = files.map(({ name, bytes }) => ({ name, bytes: _unpacked(bytes) }));
    return _said(await verify(given, askingOf({ ...asked, trust: trust === null ? null : _unpacked(trust) }), _silent));
  },
  evidence: ({ bytes }) => readEvidence(_unpacked(bytes)) && "holds",
  rows: ({ bytes }) => scoreRows(readEvidence(_unpacked(bytes))).map(canonical),
  parsed: ({ bytes }) => {
    const source = textOf(_unpacked(bytes));
    if (canonical(readCanonical(source)) !== source) throw new Error("it is not written as it was read");
    return "holds";
  },
  root: ({ lines }) => merkleRoot(lines.map(_unpacked)),
  transaction: async ({ bytes }) => {
    const { signature, memos } = await readTransaction(_unpacked(bytes));
    return { signature, memos: memos.map(({ memo, signers }) => ({ memo: hexOf(memo), signers })) };
  },
  trust: ({ bytes }) => readTrust(_unpacked(bytes)) && "holds",
};
QUESTIONS.batch = async ({ cases }) => {
  const answers = [];
  for (const { kind, given } of cases) {
    try {
      answers.push(await _asks[kind](given));
    } catch (error) {
      answers.push(error instanceof Broken ? "broken" : error instanceof NoInput ? "refused" : `failed: ${error?.stack ?? error}`);
    }
  }
  return answers;
};
