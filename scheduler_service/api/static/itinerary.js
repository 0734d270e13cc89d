// Fetches the overview and the distribution again every few seconds, unless paused, hidden or in use; shows times in the reader's zone.
"use strict";
const EVERY = 3000;
const EVERY_DISTRIBUTION = 15000;
const seen = document.getElementById("seen");
const dialog = document.getElementById("rebalance");
const button = document.getElementById("refresh");
let live = sessionStorage.getItem("paused") !== "yes";

function showLive() {
  button.textContent = live ? "Live" : "Paused";
  button.setAttribute("aria-pressed", String(live));
}

function showLocalTimes() {
  for (const element of document.querySelectorAll("time")) {
    element.title = new Date(element.dateTime).toLocaleString() + " (" + element.dateTime + ")";
  }
}

function inUse() {
  return document.hidden || dialog.open || seen.contains(document.activeElement) || String(getSelection()) !== "";
}

// By its id each time: without a database the page has no such part.
function look(id) {
  const part = document.getElementById(id);
  if (part) htmx.trigger(part, "look");
}

function lookAgain(id, every) {
  setInterval(() => { if (live && !inUse()) look(id); }, every);
}

button.addEventListener("click", () => {
  live = !live;
  sessionStorage.setItem("paused", live ? "no" : "yes");
  showLive();
});
document.body.addEventListener("htmx:afterSwap", (event) => {
  document.body.classList.remove("stale");
  showLocalTimes();
  if (dialog.contains(event.detail.target)) {
    if (!dialog.open) dialog.showModal();
    event.detail.target.scrollTop = 0;
  }
});
dialog.addEventListener("click", (event) => {
  if (event.target === dialog || event.target.closest("[data-close]")) dialog.close();
});
dialog.addEventListener("close", () => look("distribution"));
for (const failure of ["htmx:sendError", "htmx:responseError"]) {
  document.body.addEventListener(failure, () => document.body.classList.add("stale"));
}
lookAgain("seen", EVERY);
lookAgain("distribution", EVERY_DISTRIBUTION);
showLive();
showLocalTimes();
