// Follows the stream of a page, and loads the page again after each event: the server decides what is on it.
"use strict";
(() => {
  const SLOWEST_MS = 30000, LEAST_MS = 700;
  const news = document.getElementById("news");
  let address = document.body.dataset.stream, wait = 1000, timer = null;

  function say(text) {
    if (news && news.textContent !== text) news.textContent = text;
  }

  // The element of a fresh part that is the same to a reader: its tag and attributes, and its place among equal ones.
  function counterpart(element, part, other) {
    const same = root => [...root.querySelectorAll(element.tagName)].filter(one => one.cloneNode().isEqualNode(element.cloneNode()));
    return same(other)[same(part).indexOf(element)];
  }

  function replace(part, other) {
    if (other.outerHTML === part.outerHTML) return;
    const focused = part.contains(document.activeElement) ? document.activeElement : null;
    const next = focused && counterpart(focused, part, other);
    if (focused && (!next || focused.closest("form"))) return;
    const scrolled = [...part.querySelectorAll(".scroll")].map(one => one.scrollLeft);
    part.replaceWith(document.adoptNode(other));
    other.querySelectorAll(".scroll").forEach((one, n) => { one.scrollLeft = scrolled[n] ?? 0; });
    next?.focus({ preventScroll: true });
  }

  async function renew() {
    timer = null;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (!answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const part of document.querySelectorAll("[data-live]")) {
        const other = fresh.getElementById(part.id);
        if (other) replace(part, addReaderTimes(other));
      }
      address = fresh.body.dataset.stream;
      if (!address) say("It is over. This page no longer changes.");
    } catch {
      say("The service does not answer. This page tries again.");
    }
  }

  function soon() {
    if (timer === null) timer = setTimeout(renew, LEAST_MS);
  }

  function follow() {
    if (!address) return;
    const url = new URL(address, location.href);
    url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(url);
    socket.onmessage = ({ data }) => {
      wait = 1000;
      const told = JSON.parse(data);
      if (told.kind) say(`Live: ${told.kind.toLowerCase().replaceAll("_", " ")}, number ${told.seq}.`);
      else if (told.stage) say(`Live: ${told.stage}${told.total ? `, ${told.done} of ${told.total}` : ""}.`);
      soon();
    };
    socket.onclose = async ({ code }) => {
      if (code === 1000) {
        clearTimeout(timer);
        await renew();
        return;
      }
      setTimeout(async () => { await renew(); follow(); }, wait);
      wait = Math.min(2 * wait, SLOWEST_MS);
    };
  }

  follow();
})();
