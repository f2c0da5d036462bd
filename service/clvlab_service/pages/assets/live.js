// Follows the stream of what a page shows, and asks for the page again when something happened: the server says what stands on it.
"use strict";
(() => {
  const SLOWEST_MS = 30000, LEAST_MS = 700;
  const news = document.getElementById("news");
  let address = document.body.dataset.stream, wait = 1000, timer = null;

  function say(text) {
    if (news && news.textContent !== text) news.textContent = text;
  }

  async function renew() {
    timer = null;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (!answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const part of document.querySelectorAll("[data-live]")) {
        const other = fresh.getElementById(part.id);
        if (other && !part.contains(document.activeElement) && other.outerHTML !== part.outerHTML) {
          part.replaceWith(document.adoptNode(other));
        }
      }
      address = fresh.body.dataset.stream;
      if (!address) say("This is how it ended.");
    } catch {
      say("The service does not answer; trying again.");
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
