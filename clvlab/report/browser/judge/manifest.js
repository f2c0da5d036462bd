// The manifest that follows from evidence and scores, and the ids and hashes in it and in RUN_STARTED.

// The parts of a manifest that come from RUN_STARTED, where agents are in order.
async function namedBy(started) {
  const roster = started.agents.map((agent) => [agent.agent_id, agent.config_hash]);
  return {
    run_id: started.run_id,
    content_hash: started.binding.content_hash,
    policy_hash: started.policy_hash,
    config_hash: roster.length === 1 ? roster[0][1] : await sha256(bytesOf(canonical(roster))),
  };
}

// Only the log can say whether a commit_index is true.
async function rebuiltManifest({ events, started, scores, commitIndex }) {
  const lines = linesOf(events);
  const index = Number.isSafeInteger(commitIndex) && commitIndex >= 0 ? commitIndex : null;
  return {
    ...(await namedBy(started)),
    schema: "clvlab-manifest/1",
    law_version: "clv-law/1",
    verifier_version: "clvlab-proof/1",
    commit_index: index,
    evidence_hash: await sha256(events),
    event_count: lines.length,
    evidence_root: merkleRoot(lines),
    score_root: merkleRoot(linesOf(scores)),
  };
}

// Hash of everything that shapes the result of a run, with the schema that its labels require.
async function inputsHash(started) {
  const names = ["agents", "binding", "kind", "law_version", "origin_id", "policy_hash", "window"];
  const schema = `clvlab-run/${hasNewLabel(started) ? 2 : 1}`;
  return sha256(bytesOf(canonical({ ...Object.fromEntries(names.map((name) => [name, started[name]])), schema })));
}

// Every config_hash, the policy_hash and the run id must be the hash of its content.
async function checkIds(started) {
  for (const { agent_id, config, config_hash, strategy, strategy_version } of started.agents) {
    const own = await sha256(bytesOf(canonical({ schema: "clvlab-agent-config/1", config, strategy, strategy_version })));
    require(own === config_hash, `config_hash of ${agent_id} is ${config_hash}, not ${own}`);
  }
  const policyHash = await sha256(bytesOf(canonical(started.policy)));
  require(policyHash === started.policy_hash, `policy_hash is ${started.policy_hash}, but the policy gives ${policyHash}`);
  const runId = `run_${(await inputsHash(started)).slice(7, 39)}`;
  require(runId === started.run_id, `run_id is ${started.run_id}, but the run's inputs give ${runId}`);
}

async function checkManifest({ parts, stated, manifest, evidence }) {
  const other = Object.keys(manifest).filter((key) => stated[key] !== manifest[key]);
  const same = sameBytes(bytesOf(canonical(manifest)), parts["manifest.json"]);
  require(same, `manifest.json has another ${other.join(", ") || "form"} than follows from the evidence`);
  await checkIds(evidence.started);
  return { events: manifest.event_count, "evidence root": manifest.evidence_root, "score root": manifest.score_root };
}
