// Adds the reader's own time to times, which are UTC, unless the reader's clock says the same.
"use strict";
function addReaderTimes(part) {
  for (const time of part.querySelectorAll("time")) {
    const when = new Date(time.dateTime);
    const done = time.nextElementSibling?.className === "own-time";
    if (done || !when.getTimezoneOffset() || time.closest("[data-feed-clock]")) continue;
    const own = document.createElement("small");
    own.className = "own-time";
    own.textContent = `${when.toLocaleString([], { dateStyle: "medium", timeStyle: "short" })} for you`;
    time.after(" ", own);
  }
  return part;
}
if (document.currentScript) addReaderTimes(document); // in a widget, which is a module, it is called for parts
