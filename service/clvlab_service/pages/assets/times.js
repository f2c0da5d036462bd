// Adds the reader's own time to times of a page, which are UTC, unless the reader's clock says the same.
"use strict";
function addReaderTimes(part) {
  for (const time of part.querySelectorAll("time")) {
    const when = new Date(time.dateTime);
    if (!when.getTimezoneOffset() || time.closest("[data-feed-clock]")) continue;
    const own = document.createElement("small");
    own.className = "own-time";
    own.textContent = `${when.toLocaleString([], { dateStyle: "medium", timeStyle: "short" })} for you`;
    time.after(" ", own);
  }
  return part;
}
addReaderTimes(document);
