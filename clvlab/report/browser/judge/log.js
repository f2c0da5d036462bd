// The run log: a trusted log has the commitment that the manifest names, and later this result.

const _unhexed = (texts) => texts.map(fromHex);

async function checkLog(run) {
  const { parts, trust, manifest, manifestHash, evidence } = run;
  const keys = await trustedKeys(trust);
  const log = shaped(parts["log.json"], LOG, "the log proofs");
  const { origin, size, root, witnesses } = await readCheckpoint(log.checkpoint, keys);
  requireQuorum(witnesses, trust);
  for (const name of ["commit", "outcome"]) {
    const { entry, index, proof } = log[name];
    const found = rootByInclusion(leafOf(bytesOf(entry)), index, size, _unhexed(proof));
    require(sameBytes(found, root), `the ${name} is not in the log`);
  }
  const commit = shaped(log.commit.entry, COMMIT, "the commitment in the log");
  const outcome = shaped(log.outcome.entry, RESULT, "the result in the log");
  const { index } = log.commit;
  const pack = evidence.started.binding.content_hash;
  const sources = await sha256(bytesOf(canonical(evidence.started.agents.map((agent) => agent.source_sha256))));
  requireAll(
    [
      ["both are about this run", commit.run_id === manifest.run_id && outcome.run_id === manifest.run_id],
      ["it commits to the inputs of this run", commit.inputs_hash === (await inputsHash(evidence.started))],
      ["it commits to a run over this pack", commit.content_hash === undefined || commit.content_hash === pack],
      ["it commits to the sources of its agents", commit.sources_hash === undefined || commit.sources_hash === sources],
      ["its result is over this pack", outcome.content_hash === undefined || outcome.content_hash === pack],
      ["its result is this manifest", outcome.manifest_hash === manifestHash],
      ["the manifest and the result name the commitment", manifest.commit_index === index && outcome.commit_index === index],
      ["the result follows its commitment", index < log.outcome.index],
    ],
    `entries ${index} and ${log.outcome.index} of the log`,
  );
  const notes = [log.checkpoint];
  if (log.earlier) {
    notes.push(log.earlier.checkpoint);
    const before = await readCheckpoint(log.earlier.checkpoint, keys);
    require(before.origin === origin, "the earlier checkpoint is another log's");
    const [first, all] = rootsByConsistency(before.size, size, _unhexed(log.earlier.proof), before.root);
    const grows = sameBytes(first, before.root) && sameBytes(all, root);
    require(grows, "the log forked: it does not begin with its earlier entries");
  }
  const bodies = notes.map((note) => note.slice(0, note.lastIndexOf("\n\n")));
  const known = trust.checkpoint;
  const seen = known === null || bodies.includes(known.split("\n\n", 1)[0].replace(/\n+$/, ""));
  require(seen, "no proof from the checkpoint that you have seen");
  run.standing = {
    owner: commit.owner,
    content_hash: commit.content_hash ?? null,
    commit_index: index,
    tree_size: size,
    origin,
    witnesses: witnesses.size,
    witness_names: [...witnesses].sort(compareTexts),
  };
  run.unsigned = log.claim ?? null;
  return {
    entry: `${index} of ${size} in ${origin}`,
    "trusted witnesses": run.standing.witness_names.join(", ") || 0,
    "owner, by the log's word": commit.owner,
    ..._stated(log.claim),
  };
}

// No signature covers these counts: anyone who has the bundle can change them.
function _stated(claim) {
  if (!claim) return {};
  const { earlier, later, abandoned, unknown_pack } = claim;
  const text = `${earlier} earlier and ${later} later commitments over this pack by this owner, ${abandoned} abandoned`;
  const all = unknown_pack ? `${text}; ${unknown_pack} more name no pack` : text;
  return { "stated by the bundle, unsigned": `${all}; 'clvlab log audit --bundle' counts them` };
}
