// Fetches what changes again every few seconds, unless paused, hidden or in use; counts down; tells the server the browser's time zone.
"use strict";
const EVERY = 3000;
const EVERY_DISTRIBUTION = 15000;
const EVERY_LINES = 700;
const seen = document.getElementById("seen");
const dialog = document.getElementById("rebalance");
const button = document.getElementById("refresh");
const offset = Date.parse(document.querySelector(".as-of time").dateTime) - Date.now();
let live = sessionStorage.getItem("paused") !== "yes";

function showLive() {
  button.hidden = !seen.hasAttribute("hx-get");
  button.textContent = live ? "Live" : "Paused";
  button.setAttribute("aria-pressed", String(live));
}

// In use: somebody presses, types, ticks, selects text or has opened a drawer that a new part would close.
function inUse() {
  const active = document.activeElement;
  const typing = seen.contains(active) && active !== seen && active.matches("input, select, textarea, button, summary");
  const ticked = seen.querySelector("form[method=post] input[type=checkbox]:checked, .tick input:checked");
  const opened = seen.querySelector("details[open]:not(#distribution details)");
  const pressed = seen.querySelector(":active");
  return document.hidden || (dialog && dialog.open) || typing || ticked || opened || pressed || String(getSelection()) !== "";
}

// By its id each time: without a database the page has no such part.
function look(id, unasked = false) {
  const part = document.getElementById(id);
  if (part) htmx.trigger(part, "look", {unasked});
}

function lookAgain(id, every) {
  setInterval(() => { if (live && !inUse()) look(id, true); }, every);
}
// An answer may come after somebody began: it replaces nothing under his hand, and the next one does.
document.body.addEventListener("htmx:beforeSwap", (event) => {
  if (event.detail.requestConfig.triggeringEvent?.detail?.unasked && inUse()) event.detail.shouldSwap = false;
});

function spent(seconds) {
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const place = units.findIndex(([, size]) => seconds >= size);
  const [name, size] = units[place];
  const words = Math.floor(seconds / size) + " " + name;
  const rest = place === 3 ? 0 : Math.floor(seconds % size / units[place + 1][1]);
  return rest ? words + " " + rest + " " + units[place + 1][0] : words;
}

function tick() {
  const now = Date.now() + offset;
  for (const element of document.querySelectorAll("time[data-countdown]")) {
    const left = Math.round((Date.parse(element.dateTime) - now) / 1000);
    element.textContent = left >= 1 ? "in " + spent(left) : "now";
  }
  const ahead = 1000 * document.querySelector(".as-of time").dataset.offset;
  document.getElementById("clock").textContent = new Date(now + ahead).toISOString().slice(11, 19);
}

function turn() {
  live = !live;
  sessionStorage.setItem("paused", live ? "no" : "yes");
  showLive();
}

button.addEventListener("click", turn);
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, select, textarea");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "p" && !button.hidden) turn();
  if (event.key === "/") {
    const search = document.querySelector("input[type=search], .filters input");
    if (search) { search.focus(); event.preventDefault(); }
  }
});
document.body.addEventListener("htmx:afterSwap", (event) => {
  document.body.classList.remove("stale");
  tick();
  if (dialog && dialog.contains(event.detail.target)) {
    if (!dialog.open) dialog.showModal();
    event.detail.target.scrollTop = 0;
  }
});
// A second click, before the answer to the first, asks for nothing twice; a page that comes back may be used again.
document.addEventListener("submit", (event) => {
  if (event.target.dataset.sent) event.preventDefault();
  event.target.dataset.sent = "yes";
});
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});
if (dialog) {
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog || event.target.closest("[data-close]")) dialog.close();
  });
  dialog.addEventListener("close", () => look("distribution"));
}
for (const failure of ["htmx:sendError", "htmx:responseError"]) {
  document.body.addEventListener(failure, () => document.body.classList.add("stale"));
}
// The server writes the times: it learns the zone of this browser once.
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zone) document.cookie = "itinerary_zone=" + encodeURIComponent(zone) + "; path=/; max-age=31536000; samesite=lax";
// What was done is said once: a reload, or the address kept, does not say it again.
const address = new URL(location.href);
if (address.searchParams.has("done")) {
  address.searchParams.delete("done");
  history.replaceState(null, "", address);
}
lookAgain("seen", EVERY);
lookAgain("distribution", EVERY_DISTRIBUTION);
// New lines disturb nobody who reads or selects; on a page that shows nothing else, the button is not there to pause.
setInterval(() => {
  const next = document.getElementById("log-next");
  if (next && (live || button.hidden) && !document.hidden) htmx.trigger(next, "more");
}, EVERY_LINES);
setInterval(tick, 1000);
showLive();
tick();
