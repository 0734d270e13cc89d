// The timeline: dragging, the wheel and keys change the address and fetch the part for it; the server draws.
"use strict";
const picture = () => document.getElementById("timeline");
const plot = (event) => event.target.closest("#timeline .lane svg");
let drag = null;

function show(address) {
  history.pushState(null, "", address);
  htmx.ajax("GET", address, {target: "#seen", swap: "innerHTML"});
}

function showTime(begin, end) {
  const address = new URL(location.href);
  for (const name of ["within", "first_lane", "done"]) address.searchParams.delete(name);
  address.searchParams.set("from", new Date(begin).toISOString());
  address.searchParams.set("to", new Date(Math.max(end, begin + 1000)).toISOString());
  show(address.pathname + address.search);
}

function step(name) {
  const link = document.querySelector(`[data-step="${name}"]`);
  if (link) show(link.getAttribute("href"));
}

function timeAt(svg, x) {
  const box = svg.getBoundingClientRect();
  const begin = Date.parse(picture().dataset.since), end = Date.parse(picture().dataset.until);
  const share = Math.min(1, Math.max(0, (x - box.left) / box.width));
  return Math.round(begin + share * (end - begin));
}

function marks() {
  return [...picture().querySelectorAll("a.mark")];
}

document.addEventListener("pointerdown", (event) => {
  const svg = plot(event);
  if (svg && event.button === 0 && event.pointerType !== "touch") drag = {svg, from: event.clientX, moved: false};
});
document.addEventListener("pointermove", (event) => {
  if (!drag || Math.abs(event.clientX - drag.from) < 5) return;
  drag.moved = true;
  const box = drag.svg.getBoundingClientRect();
  let chosen = drag.svg.querySelector(".chosen");
  if (!chosen) {
    chosen = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    chosen.setAttribute("class", "chosen");
    chosen.setAttribute("height", "100%");
    drag.svg.append(chosen);
  }
  chosen.setAttribute("x", Math.min(drag.from, event.clientX) - box.left);
  chosen.setAttribute("width", Math.abs(event.clientX - drag.from));
});
document.addEventListener("pointerup", (event) => {
  if (drag && drag.moved) {
    const times = [timeAt(drag.svg, drag.from), timeAt(drag.svg, event.clientX)].sort((a, b) => a - b);
    showTime(...times);
    document.addEventListener("click", (click) => click.preventDefault(), {capture: true, once: true});
  }
  drag = null;
});
document.addEventListener("dragstart", (event) => { if (plot(event)) event.preventDefault(); });
document.addEventListener("wheel", (event) => {
  const svg = plot(event);
  if (!svg || !event.ctrlKey) return;
  event.preventDefault();
  const begin = Date.parse(picture().dataset.since), end = Date.parse(picture().dataset.until);
  const at = timeAt(svg, event.clientX), factor = event.deltaY < 0 ? 0.5 : 2;
  showTime(Math.round(at - (at - begin) * factor), Math.round(at + (end - at) * factor));
}, {passive: false});
document.addEventListener("keydown", (event) => {
  if (!picture() || !picture().contains(event.target)) return;
  const steps = {"+": "Zoom in", "=": "Zoom in", "-": "Zoom out", ArrowLeft: "Earlier", ArrowRight: "Later"};
  if (event.target === picture()) {
    if (event.key === "Enter" && marks().length) marks()[0].focus();
    else if (event.key in steps) step(steps[event.key]);
    else return;
    event.preventDefault();
  } else if (event.target.matches("a.mark")) {
    const all = marks(), places = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1};
    if (event.key in places) (all[all.indexOf(event.target) + places[event.key]] || event.target).focus();
    else if (event.key === "Escape") picture().focus();
    else return;
    event.preventDefault();
  }
});
document.body.addEventListener("htmx:afterSwap", () => {
  // The part that is fetched again is that of the address shown.
  const seen = document.getElementById("seen");
  if (seen.hasAttribute("hx-get")) {
    seen.setAttribute("hx-get", location.pathname + location.search);
    if (new URL(location.href).searchParams.has("from")) seen.removeAttribute("hx-get");
    htmx.process(seen);
  }
});
addEventListener("popstate", () => location.reload());
