"use strict";

const boards = [...document.querySelectorAll("section.board")].map((section) => ({
  section,
  headers: [...section.querySelectorAll("thead th[data-sort]")],
  bodies: [...section.querySelectorAll("tbody")].map((body) => ({
    body,
    kind: body.dataset.kind,
    rows: [...body.querySelectorAll("tr:not(.kind)")],
  })),
}));
const tools = document.querySelector(".tools");
const task = document.getElementById("task");
const name = document.getElementById("name");
const kinds = [...document.querySelectorAll("input[name=kind]")];
const status = document.getElementById("status");

function ordered(rows, place, isText, descending) {
  // Rows without a value come last in both directions.
  const keyed = rows.map((row) => {
    const value = row.cells[place].dataset.value;
    return { row, value: value === undefined ? null : isText ? value.toLowerCase() : Number(value) };
  });
  keyed.sort((one, other) => {
    if (one.value === null || other.value === null) return (one.value === null) - (other.value === null);
    const order = isText ? one.value.localeCompare(other.value) : one.value - other.value;
    return descending ? -order : order;
  });
  return keyed.map((each) => each.row);
}

function sortBoard(board, header, descending) {
  const isText = header.dataset.type === "text";
  for (const group of board.bodies) {
    const rows = ordered(group.rows, header.cellIndex, isText, descending);
    group.body.append(...rows);
    if (header.dataset.key === undefined) continue;
    for (const row of rows) row.cells[0].textContent = row.cells[header.cellIndex].dataset.rank ?? "";
  }
  for (const each of board.headers) each.setAttribute("aria-sort", "none");
  header.setAttribute("aria-sort", descending ? "descending" : "ascending");
}

function showColumns(board, only) {
  const hidden = new Set();
  for (const header of board.headers) {
    header.hidden = only !== null && header.dataset.key !== undefined && header !== only;
    if (header.hidden) hidden.add(header.dataset.sort);
  }
  for (const cell of board.section.querySelectorAll("td[data-column]")) {
    cell.hidden = hidden.has(cell.dataset.column);
  }
}

function filter() {
  const words = name.value.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = new Map(kinds.map((box) => [box.value, box.checked]));
  let count = 0;
  let of = 0;
  for (const board of boards) {
    const only = board.headers.find((header) => header.dataset.key === task.value) ?? null;
    showColumns(board, only);
    let visible = 0;
    for (const group of board.bodies) {
      let inGroup = 0;
      for (const row of group.rows) {
        const text = row.querySelector(".model").dataset.value.toLowerCase();
        const isScored = only === null || row.cells[only.cellIndex].textContent !== "";
        row.hidden = !isScored || !words.every((word) => text.includes(word));
        inGroup += !row.hidden;
      }
      group.body.hidden = inGroup === 0 || shown.get(group.kind) === false;
      visible += group.body.hidden ? 0 : inGroup;
      of += group.rows.length;
    }
    const isChosen = task.value === "" || only !== null || board.section.id === task.value;
    board.section.hidden = !isChosen || visible === 0;
    count += board.section.hidden ? 0 : visible;
  }
  status.textContent = count === 0 ? "No matching rows." : `${count.toLocaleString("en")} of ${of.toLocaleString("en")} rows.`;
  remember();
}

function remember() {
  const state = new URLSearchParams();
  if (task.value) state.set("task", task.value);
  if (name.value) state.set("name", name.value);
  const text = state.toString();
  try {
    history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
  } catch {
    // An embedded page may have no address.
  }
}

for (const board of boards) {
  for (const header of board.headers) {
    header.querySelector("button").addEventListener("click", () => {
      const sorted = header.getAttribute("aria-sort");
      const isText = header.dataset.type === "text";
      sortBoard(board, header, sorted === "none" ? !isText : sorted === "ascending");
    });
  }
}
task.addEventListener("change", () => {
  filter();
  for (const board of boards) {
    const header = board.headers.find((each) => each.dataset.key === task.value);
    if (header) sortBoard(board, header, true);
  }
});
name.addEventListener("input", filter);
for (const box of kinds) box.addEventListener("change", filter);
tools.addEventListener("submit", (event) => event.preventDefault());
tools.hidden = false;
const state = new URLSearchParams(location.hash.slice(1));
name.value = state.get("name") ?? "";
if ([...task.options].some((option) => option.value === state.get("task"))) {
  task.value = state.get("task");
  task.dispatchEvent(new Event("change"));
} else {
  filter();
}
