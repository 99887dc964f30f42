"use strict";
// Tells of the cell or line that is looked at, moves between them by arrow keys, sorts and copies
// tables, and has the library draw the curves.

const more = document.getElementById("more");

function tell(cell) {
  more.hidden = !cell;
  more.textContent = cell ? cell.dataset.more : "";
}

function toldOf(event) {
  return event.target.closest?.("[data-more]");
}

document.addEventListener("focusin", (event) => tell(toldOf(event)));
document.addEventListener("focusout", () => tell(null));
document.addEventListener("mouseover", (event) => {
  const focused = document.activeElement?.closest("[data-more]");
  tell(toldOf(event) ?? focused);
});

// ---- arrow keys ----

const steps = {
  ArrowRight: [0, 1],
  ArrowLeft: [0, -1],
  ArrowDown: [1, 0],
  ArrowUp: [-1, 0],
};

function enter(cell) {
  for (const other of cell.closest("table, svg").querySelectorAll("[tabindex='0']")) {
    other.tabIndex = -1;
  }
  cell.tabIndex = 0;
  cell.focus();
}

function nextCell(cell, step) {
  const row = cell.closest("tbody").rows[cell.parentNode.sectionRowIndex + step[0]];
  return row?.cells[cell.cellIndex + step[1]];
}

// Lines of a picture have an order, and no rows.
function nextLine(line, step) {
  const lines = [...line.closest("svg").querySelectorAll("[data-more]")];
  return lines[lines.indexOf(line) + step[0] + step[1]];
}

document.addEventListener("keydown", (event) => {
  const cell = event.target.closest?.(".heat td[tabindex], .pair");
  const step = steps[event.key];
  if (!cell || !step) return;
  event.preventDefault();
  const next = cell.matches("td") ? nextCell(cell, step) : nextLine(cell, step);
  if (next?.matches("td, .pair")) enter(next);
});

// ---- sorting and copying ----

function valueOf(row, column) {
  const cell = row.cells[column];
  const number = parseFloat(cell.dataset.value ?? cell.textContent);
  return Number.isNaN(number) ? cell.textContent : number;
}

function compare(one, other) {
  if (typeof one === typeof other) return one < other ? -1 : one > other ? 1 : 0;
  return typeof one === "number" ? -1 : 1;
}

function sort(head) {
  const rising = head.ariaSort !== "ascending";
  for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
  head.ariaSort = rising ? "ascending" : "descending";
  const body = head.closest("table").tBodies[0];
  const rows = [...body.rows].sort(
    (a, b) => (rising ? 1 : -1) * compare(valueOf(a, head.cellIndex), valueOf(b, head.cellIndex)),
  );
  body.append(...rows);
}

function button(text, action) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.addEventListener("click", action);
  return made;
}

function textOf(table) {
  return [...table.rows]
    .map((row) => [...row.cells].map((cell) => cell.textContent).join("\t"))
    .join("\n");
}

for (const table of document.querySelectorAll("table")) {
  for (const head of table.querySelectorAll("thead th")) {
    const text = head.textContent || "sort";
    head.replaceChildren(button(text, () => sort(head)));
  }
  if (navigator.clipboard) {
    const copy = button("Copy", async () => {
      await navigator.clipboard.writeText(textOf(table));
      copy.textContent = "Copied";
    });
    copy.className = "copy";
    table.closest("figure").prepend(copy);
  }
}

// ---- curves ----

const charts = JSON.parse(document.getElementById("charts").textContent);
const source = document.getElementById("library");
const places = charts.map((_, index) => document.getElementById(`chart${index}`));

// The library takes longer to start than all the rest of the page: it waits until a curve is near.
function draw(place) {
  if (place.childElementCount) return;
  if (typeof Plotly === "undefined") {
    const script = document.createElement("script");
    script.textContent = source.textContent;
    document.body.append(script);
  }
  const { data, layout } = charts[places.indexOf(place)];
  const common = {
    margin: { l: 56, r: 12, t: 12, b: 44 },
    paper_bgcolor: "transparent",
    plot_bgcolor: "transparent",
    font: { family: "inherit", size: 12 },
    legend: { orientation: "h", y: -0.25 },
    showlegend: true,
    hovermode: "closest",
  };
  Plotly.newPlot(place, data, { ...common, ...layout }, { responsive: true, displayModeBar: false });
}

const near = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) draw(entry.target);
    }
  },
  { rootMargin: "400px" },
);

for (const place of places) {
  if (source) near.observe(place);
  else place.remove();
}

// ---- paper ----

// What is folded away, or not yet drawn, on a screen is on paper too.
let folded = [];
window.addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open])")];
  for (const each of folded) each.open = true;
  if (source) places.forEach(draw);
});
window.addEventListener("afterprint", () => {
  for (const each of folded) each.open = false;
});
