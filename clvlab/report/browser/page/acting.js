// Actions of the reader: choose files, name keys, change a byte.

const _onProgress = ({ step, done }) => {
  the("progress").value = done;
  the("about").textContent = `${step[0].toUpperCase()}${step.slice(1)} …`;
};

// Show the judge's answer to a question; until then no other question is asked.
async function answered(question, given) {
  const buttons = [...document.querySelectorAll("button")];
  const before = buttons.map((button) => button.disabled);
  buttons.forEach((button) => (button.disabled = true));
  the("progress").hidden = false;
  the("verdict").className = "verdict";
  the("verdict").textContent = "Checking …";
  let result = null;
  try {
    result = await judge.ask(question, given, { onProgress: _onProgress });
  } catch (error) {
    refuse(error.message, error.noRun);
  }
  the("progress").hidden = true;
  buttons.forEach((button, at) => (button.disabled = before[at]));
  if (!result) return null;
  showVerdict(result);
  showChecks(result);
  showParts(result.sizes);
  await showTable(result.decisions);
  the("again").disabled = false;
  return result;
}

function refuse(why, noRun) {
  the("verdict").className = noRun ? "verdict none" : "verdict fail";
  the("verdict").textContent = plain(noRun ? `Not a run: ${why}. Nothing was checked.` : `Nothing was checked: ${why}.`);
  the("about").textContent = "";
  for (const name of ["checks", "tamper", "decisions"]) the(`${name}-section`).hidden = true;
}

function asking() {
  const keys = the("trust").value.trim();
  const required = ["anchor", "log"].filter((name) => the(`need-${name}`).checked);
  return { trust: keys ? new TextEncoder().encode(keys) : null, required, withoutWitness: the("no-witness").checked };
}

async function judgeFiles(chosen) {
  if (!chosen.length) return;
  the("altered").replaceChildren();
  the("restore").disabled = true;
  the("again").disabled = false;
  the("about").textContent = "Reading …";
  await answered("judge", { files: chosen, ...asking() });
}

// Dropped files, and the files directly in a dropped folder.
async function filesOf(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return [...transfer.files];
  const found = [];
  for (const entry of entries) found.push(...(entry.isDirectory ? await _entriesOf(entry) : [entry]));
  const files = found.filter((entry) => entry.isFile);
  return Promise.all(files.map((entry) => new Promise((keep, fail) => entry.file(keep, fail))));
}

async function _entriesOf(folder) {
  const reader = folder.createReader();
  const found = [];
  for (;;) {
    const some = await new Promise((keep, fail) => reader.readEntries(keep, fail));
    if (!some.length) return found;
    found.push(...some);
  }
}

function showParts(sizes) {
  const part = the("part");
  const chosen = part.value;
  const names = Object.keys(sizes).filter((name) => sizes[name] && (sizes["context.json"] || !/^(anchor|log)/.test(name)));
  part.replaceChildren(...names.map((name) => Object.assign(element("option", { text: `${name} (${number(sizes[name])} bytes)` }), { value: name })));
  part.sizes = sizes;
  if (names.includes(chosen)) part.value = chosen;
  else if (names.includes("events.jsonl")) part.value = "events.jsonl";
  the("place").max = sizes[part.value] - 1;
  the("tamper-section").hidden = !names.length;
}

async function alter(at, bit) {
  const result = await answered("alter", { part: the("part").value, at, bit });
  if (!result) return;
  const { part, line, before, after, left, right } = result.altered;
  const char = (byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : `byte ${byte}`);
  const broken = Object.keys(result.checks).filter((name) => result.checks[name] !== null);
  const what = broken.length ? `${broken.length === 1 ? "1 check breaks" : `${broken.length} checks break`}: ${broken.join(", ")}.` : "No check breaks: no proof covers this byte.";
  the("altered").replaceChildren(
    element("span", { text: `Byte ${number(at)} of ${part}, in line ${number(line)}, was ${char(before)} and is ` }),
    element("mark", { text: char(after) }),
    element("span", { text: `. ${what} ` }),
    element("code", { text: `…${left}` }),
    element("mark", { text: char(after) }),
    element("code", { text: `${right}…` }),
  );
  the("restore").disabled = false;
}

for (const name of ["files", "folder"]) {
  the(name).onchange = ({ target }) => {
    const chosen = [...target.files];
    target.value = ""; // so that the same file can be chosen again, for example after a change
    return judgeFiles(chosen);
  };
}
the("again").onclick = () => answered("judgeAgain", asking());
the("part").onchange = ({ target }) => (the("place").max = target.sizes[target.value] - 1);
the("alter").onclick = () => {
  const at = Number(the("place").value);
  const fits = Number.isInteger(at) && at >= 0 && at < the("part").sizes[the("part").value];
  if (fits) return alter(at, 0);
  return the("altered").replaceChildren("This part has no such byte.");
};
the("alter-any").onclick = () => {
  const at = Math.floor(Math.random() * the("part").sizes[the("part").value]);
  the("place").value = at;
  return alter(at, Math.floor(Math.random() * 3));
};
the("restore").onclick = async () => {
  the("altered").replaceChildren();
  await answered("restore");
  the("restore").disabled = true;
};
document.ondragover = (event) => {
  event.preventDefault();
  the("drop").classList.add("over");
};
document.ondragleave = () => the("drop").classList.remove("over");
document.ondrop = async (event) => {
  event.preventDefault();
  the("drop").classList.remove("over");
  await judgeFiles(await filesOf(event.dataTransfer));
};
if (!globalThis.crypto?.subtle) refuse("this browser offers WebCrypto only to pages from a disk or by HTTPS: save this page, and open it from disk");
