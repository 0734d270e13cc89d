// The keyboard palette and the list of keys. The server finds; this opens, moves the choice and goes there.
"use strict";
(() => {
  const palette = document.getElementById("palette");
  const keys = document.getElementById("keys");
  const input = document.getElementById("palette-input");
  const list = document.getElementById("palette-list");

  function options() { return [...list.querySelectorAll("[data-address]")]; }

  function choose(option) {
    for (const each of options()) each.setAttribute("aria-selected", String(each === option));
    if (option) {
      input.setAttribute("aria-activedescendant", option.id);
      option.scrollIntoView({block: "nearest"});
    } else {
      input.removeAttribute("aria-activedescendant");
    }
  }

  function go(option, elsewhere) {
    if (!option) return;
    if (elsewhere) open(option.dataset.address, "_blank", "noopener");
    else location.assign(option.dataset.address);
    palette.close();
  }

  function show() {
    if (palette.open) return palette.close();
    keys.close();
    input.value = "";
    palette.showModal();
    input.focus();
    htmx.trigger(input, "look");
  }

  document.getElementById("search").addEventListener("click", show);
  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey) {
      event.preventDefault();
      show();
    } else if (event.key === "?" && !event.target.matches("input, select, textarea") && !palette.open && !keys.open) {
      keys.showModal();
    }
  });
  input.addEventListener("keydown", (event) => {
    const all = options();
    const at = all.findIndex((each) => each.getAttribute("aria-selected") === "true");
    const steps = {ArrowDown: 1, ArrowUp: -1};
    if (event.key in steps && all.length) {
      event.preventDefault();
      choose(all[(at + steps[event.key] + all.length) % all.length]);
    } else if (event.key === "Enter") {
      event.preventDefault();
      go(all[at], event.ctrlKey || event.metaKey);
    }
  });
  list.addEventListener("click", (event) => go(event.target.closest("[data-address]"), event.ctrlKey || event.metaKey));
  list.addEventListener("htmx:afterSwap", () => choose(options()[0]));
  for (const dialog of [palette, keys]) {
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  }
})();
