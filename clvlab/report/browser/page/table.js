// Decisions, fifty at a time, each with the arithmetic of its score. The worker sends rows when they are shown.

const PAGE = 50;
const table = { at: 0, count: 0 };

const _percent = (bps) => (bps === null ? "–" : `${(bps / 100).toFixed(2)} %`);
const _signed = (bps) => (bps > 0 ? `+${bps}` : String(bps).replace("-", "−"));

async function showRows(at) {
  table.at = Math.max(0, Math.min(at, PAGE * Math.floor((table.count - 1) / PAGE)));
  const to = Math.min(table.count, table.at + PAGE);
  const rows = await judge.ask("rows", { from: table.at, to });
  the("rows").replaceChildren(...rows.map(_row));
  the("range").textContent = table.count ? `${number(table.at + 1)} to ${number(to)} of ${number(table.count)}` : "none";
  the("first").disabled = the("previous").disabled = table.at === 0;
  the("next").disabled = the("last").disabled = to === table.count;
}

function showTable(count) {
  table.count = count;
  the("decisions-section").hidden = !count;
  if (count) return showRows(Math.min(table.at, count - 1) - (Math.min(table.at, count - 1) % PAGE));
  return null;
}

function _row(row) {
  const what = row.type === "WAIT" ? "WAIT" : `${row.market_key ?? "no market"} · ${row.side ?? "no side"}`;
  const where = `${row.agent_id} · fixture ${row.fixture_id} · tick ${row.tick_seq}`;
  const entry = row.odds_milli === null ? "no quote" : `at ${(row.odds_milli / 1000).toFixed(3)}`;
  const close = row.close_kind === null ? "" : row.close_kind;
  const clv = row.clv_bps === null ? element("span", { text: "–" }) : element("span", { text: _signed(row.clv_bps), className: _way(row.clv_bps) });
  const arithmetic = row.clv_bps === null ? "" : `${row.close_prob_bps} − ${row.entry_prob_bps}`;
  const cells = [
    element("td", { className: "number", text: row.seq }),
    element("td", { className: "what", title: `${what} ${where}` }, element("bdi", { text: what }), element("small", { text: where })),
    _cell(_percent(row.entry_prob_bps), row.type === "WAIT" ? "" : entry),
    _cell(_percent(row.close_prob_bps), close),
    element("td", { className: "number" }, clv, element("small", { text: arithmetic })),
    _cell(row.edge_bps === null ? "–" : _signed(row.edge_bps), ""),
    element("td", { text: row.reason }),
  ];
  return element("tr", {}, ...cells);
}

const _way = (bps) => (bps > 0 ? "up" : bps < 0 ? "down" : "");
const _cell = (text, small) => element("td", { className: "number" }, element("span", { text }), element("small", { text: small }));

the("first").onclick = () => showRows(0);
the("previous").onclick = () => showRows(table.at - PAGE);
the("next").onclick = () => showRows(table.at + PAGE);
the("last").onclick = () => showRows(table.count);
