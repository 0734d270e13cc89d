// Draws the trends of a page, and draws them again when their data come anew, the window or the theme changes.
"use strict";
(() => {
  const HEIGHT = 176;
  const COLOURS = ["--busy", "--wait", "--good", "--bad", "--calm"];
  const OF_LINE = {completed: "--good", "failed, missed": "--bad", median: "--busy", p99: "--wait"};
  const drawn = new Map();
  // A canvas does not know light-dark(): an element resolves it.
  const probe = document.body.appendChild(document.createElement("span"));
  const colour = (name) => { probe.style.color = `var(${name})`; return getComputedStyle(probe).color; };
  const read = () => {
    const element = document.getElementById("trend-data");
    return element ? JSON.parse(element.dataset.trends) : null;
  };
  let data = read();

  function seconds(value) {
    if (value === null || value === undefined) return "–";
    if (value === 0) return "0 s";
    if (value < 1) return Math.round(value * 1000 * 10) / 10 + " ms";
    if (value < 60) return Math.round(value * 10) / 10 + " s";
    if (value < 3600) return Math.round(value / 6) / 10 + " min";
    return Math.round(value / 360) / 10 + " h";
  }

  function number(value) {
    return value === null || value === undefined ? "–" : String(Math.round(value * 10) / 10);
  }

  // Behind the lines: times in which nobody led. Before them: what changed.
  function shade(plot) {
    const {ctx, bbox} = plot;
    ctx.save();
    ctx.fillStyle = colour("--pico-muted-border-color");
    ctx.globalAlpha = .6;
    for (const [from, to] of data.gaps) {
      const left = Math.max(bbox.left, plot.valToPos(from, "x", true));
      const right = Math.min(bbox.left + bbox.width, plot.valToPos(to, "x", true));
      ctx.fillRect(left, bbox.top, Math.max(1, right - left), bbox.height);
    }
    ctx.restore();
  }

  function mark(plot) {
    const {ctx, bbox} = plot;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colour("--calm");
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.font = `${11 * devicePixelRatio}px sans-serif`;
    for (const [at, letter] of data.marks) {
      const x = Math.round(plot.valToPos(at, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.fillText(letter, x + 2 * devicePixelRatio, bbox.top + 10 * devicePixelRatio);
    }
    ctx.restore();
  }

  // In the zone of the page, as 24 hours; "2026-11-29 16:05".
  function wall(second) {
    const parts = {year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit"};
    return new Intl.DateTimeFormat("sv-SE", {...parts, timeZone: data.zone}).format(new Date(second * 1000));
  }

  function clock(plot, at, axis, space, step) {
    return at.map((second) => wall(second).slice(...(step >= 86400 ? [5, 10] : [11, 16])));
  }

  function options(place, of) {
    const text = of.unit === "s" ? seconds : number;
    const quiet = {stroke: () => colour("--pico-muted-color"), ticks: {show: false}, font: "11px sans-serif"};
    const grid = {stroke: () => colour("--pico-muted-border-color"), width: 1};
    return {
      width: place.clientWidth, height: HEIGHT, tzDate: (at) => uPlot.tzDate(new Date(at * 1000), data.zone),
      padding: [6, 16, 0, 0], cursor: {sync: {key: "trends"}, drag: {x: false, y: false}}, select: {show: false},
      scales: {y: {range: (plot, low, high) => [0, high > 0 ? high * 1.1 : 1]}},
      axes: [{...quiet, grid, size: 26, values: clock}, {...quiet, grid, size: 58, values: (plot, values) => values.map(text)}],
      series: [
        {label: data.zone, value: (plot, at) => at === null ? "–" : wall(at)},
        ...of.labels.map((label, place) => ({
          label, width: 1.5, points: {size: 4}, value: (plot, value) => text(value),
          stroke: () => colour(OF_LINE[label] || COLOURS[place % COLOURS.length]),
        })),
      ],
      hooks: {drawClear: [shade], draw: [mark]},
    };
  }

  function draw() {
    if (!data) return;
    for (const figure of document.querySelectorAll("#trends figure[data-plot]")) {
      const of = data.plots[figure.dataset.plot];
      const place = figure.querySelector(".drawn");
      const before = drawn.get(figure);
      figure.querySelector(".latest").textContent = of.now;
      if (before && before.labels === of.labels.join("\n")) {
        before.plot.setData([data.times, ...of.values]);
        continue;
      }
      if (before) before.plot.destroy();
      const plot = new uPlot(options(place, of), [data.times, ...of.values], place);
      drawn.set(figure, {plot, labels: of.labels.join("\n")});
    }
  }

  const resized = new ResizeObserver((entries) => {
    for (const {target, contentRect} of entries) {
      const there = drawn.get(target.closest("figure"));
      if (there && contentRect.width > 0) there.plot.setSize({width: contentRect.width, height: HEIGHT});
    }
  });
  document.body.addEventListener("htmx:afterSwap", () => {
    const newest = document.getElementById("trend-data");
    if (!newest || JSON.stringify(data) === newest.dataset.trends) return;
    data = read();
    draw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const {plot} of drawn.values()) plot.redraw();
  });
  draw();
  for (const place of document.querySelectorAll("#trends .drawn")) resized.observe(place);
  lookAgain("trend-data", 15000);
})();
