// Elements of the page. Text from a run is inserted as text, never as markup, and its invisible characters are spelled out.
// Otherwise they could imitate these lines, or reverse the text around them.

const the = (id) => document.getElementById(id);

function plain(text) {
  return String(text).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (char) => `\\u{${char.codePointAt(0).toString(16)}}`);
}

function element(tag, { className, text, title } = {}, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = plain(text);
  if (title !== undefined) made.title = plain(title);
  made.append(...children);
  return made;
}

const number = new Intl.NumberFormat("en").format;

function facts(list, entries) {
  const shown = entries.flatMap(([name, value]) => {
    const text = typeof value === "number" ? number(value) : (value ?? "none");
    const className = /^(sha256:|run_)/.test(text) ? "hash" : "";
    return [element("dt", { text: name }), element("dd", { text, className })];
  });
  list.replaceChildren(...shown);
  return list;
}
