// The verdict in one sentence, and under it each check with its numbers.

const NEVER = [
  ["states_from_ticks", "whether the prices follow from the price updates: add ticks.csv, or use clv_states.py"],
  ["chain", "whether the chain still holds the memo: look up the signature there"],
  ["other runs", "whether other agents were tried and hidden: 'clvlab log audit' counts the runs in a log"],
  ["program", "whether a replay gives the same run: 'clvlab verify --replay' checks that"],
];

const _failed = (result) => Object.keys(result.checks).filter((name) => result.checks[name] !== null);

const _unreadable = (result) => result.recomputed_evidence_hash.startsWith("recompute_error:");

function sentence(result) {
  const failed = _failed(result);
  const all = Object.keys(result.checks).length;
  const what = result.disclosure ? "This disclosure" : "This run";
  if (_unreadable(result)) return `${what} does not hold: its evidence can't be read, so all ${all} checks fail.`;
  if (failed.length) {
    const some = `${failed.length} of ${all} ${all === 1 ? "check" : "checks"} ${failed.length === 1 ? "fails" : "fail"}`;
    return `${what} does not hold: ${some} (${failed.join(", ")}).`;
  }
  const open = Object.keys(result.without);
  const rest = open.length ? ` No ${open.join(" and no ")} was checked.` : "";
  if (result.disclosure) return `${what} holds: the score follows from this decision, under the manifest below.`;
  return `${what} holds: all ${all} checks pass, and ${number(result.decisions)} scores were recomputed.${rest}`;
}

function showVerdict(result) {
  const verdict = the("verdict");
  verdict.className = `verdict ${_failed(result).length ? "fail" : "pass"}`;
  verdict.textContent = sentence(result);
  const agents = result.agents.length > 3 ? `${result.agents.length} agents` : result.agents.join(", ");
  const about = result.about ? `${result.about.mode} of ${agents}${result.about.pack ? ` over ${result.about.pack}` : ""}. ` : "";
  the("about").textContent = plain(`${about}Checked on this machine; nothing left it.`);
}

function showChecks(result) {
  const made = Object.entries(result.checks).map(([name, fault]) =>
    fault === null ? _check("pass", "✓ pass", name, result.passed[name], result.numbers[name]) : _check("fail", "✗ fail", name, fault),
  );
  const open = Object.entries(result.without).map(([name, why]) => _check("open", "not checked", name, why));
  const never = NEVER.filter(([name]) => !(name in result.checks)).map(([name, why]) => _check("open", "not checked", name, why));
  the("checks").replaceChildren(...made, ...open, ...never);
  const { run_id, manifest_hash, recomputed_evidence_hash } = result;
  facts(the("hashes"), [["run", run_id], ["evidence", _unreadable(result) ? "can't be read" : recomputed_evidence_hash], ["manifest", manifest_hash]]);
  the("checks-section").hidden = false;
}

function _check(className, mark, name, why, numbers = {}) {
  const question = QUESTIONS[name] ? [element("p", { className: "question", text: QUESTIONS[name] })] : [];
  const text = element("div", {}, ...question, element("span", { className: "name", text: name }), element("p", { className: "why", text: why }));
  if (Object.keys(numbers).length) text.append(facts(element("dl", { className: "facts" }), Object.entries(numbers)));
  return element("li", { className }, element("span", { className: "mark", text: mark }), text);
}
