// Fetches the overview again every few seconds, unless paused, hidden or in use; shows times in the reader's zone.
"use strict";
const EVERY = 3000;
const seen = document.getElementById("seen");
const button = document.getElementById("refresh");
let live = sessionStorage.getItem("paused") !== "yes";

function showLive() {
  button.textContent = live ? "Live" : "Paused";
  button.setAttribute("aria-pressed", String(live));
}

function showLocalTimes() {
  for (const element of seen.querySelectorAll("time")) {
    element.title = new Date(element.dateTime).toLocaleString() + " (" + element.dateTime + ")";
  }
}

function inUse() {
  return document.hidden || seen.contains(document.activeElement) || String(getSelection()) !== "";
}

button.addEventListener("click", () => {
  live = !live;
  sessionStorage.setItem("paused", live ? "no" : "yes");
  showLive();
});
document.body.addEventListener("htmx:afterSwap", () => {
  document.body.classList.remove("stale");
  showLocalTimes();
});
for (const failure of ["htmx:sendError", "htmx:responseError"]) {
  document.body.addEventListener(failure, () => document.body.classList.add("stale"));
}
setInterval(() => { if (live && !inUse()) htmx.trigger(seen, "look"); }, EVERY);
showLive();
showLocalTimes();
