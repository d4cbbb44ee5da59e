// Tables whose columns sort, that of distinct events, and its rows as CSV.

// Shows a table. A column has a name, the value that it sorts by, and a cell or the text of one; `below` gives
// what a row opens. The address keeps the column that sorts: `-` before its name turns the order.
function showTable(box, state, columns, rows, below = null) {
  const [, isTurned, name] = /^(-?)(.*)$/.exec(state.sort);
  const sorting = columns.find((column) => column.name === name);
  if (sorting !== undefined) rows = sorted(rows, sorting, isTurned !== "");
  const head = columns.map((column) => {
    const isSorting = column === sorting;
    const direction = isSorting ? (Boolean(column.isNumber) === (isTurned === "") ? "descending" : "ascending") : null;
    // A first click sorts, a second one turns the order, a third one leaves the order of the rows.
    const sort = !isSorting ? column.name : isTurned === "" ? `-${column.name}` : "";
    const button = column.value ? make("a", { href: addressWith({ sort }), class: "sort" }, column.name) : column.name;
    return make("th", { scope: "col", class: classOf(column), "aria-sort": direction }, button);
  });
  const body = make("tbody");
  const more = make("button", { type: "button", class: "more" });
  const table = make("table", {}, make("thead", {}, make("tr", {}, ...head)), body);
  keepingFocus(box, () => box.replaceChildren(table, more));
  showList(body, rows, (row) => {
    const cells = columns.map((column) => make("td", { class: classOf(column) }, column.cell?.(row) ?? shownValue(column, row)));
    const line = make("tr", {}, ...cells);
    if (below !== null) opens(line, cells.at(-1), () => below(row));
    return line;
  }, more);
  return rows;
}

// Fills a box again; the focus stays on the field or link at the same place.
function keepingFocus(box, fill) {
  const fields = () => [...box.querySelectorAll("a, button, select")];
  const place = fields().indexOf(document.activeElement);
  fill();
  if (place >= 0) fields()[place]?.focus();
}

const classOf = ({ isNumber, isMinor, isDate }) =>
  [isNumber && "number", isMinor && "minor", isDate && "date"].filter(Boolean).join(" ") || null;

function shownValue(column, row) {
  const value = column.value(row);
  return typeof value === "number" ? NUMBERS.format(value) : value;
}

const COLLATOR = new Intl.Collator("en", { numeric: true });

// Numbers from the highest on, texts from A on, empty ones last.
function sorted(rows, { value, isNumber }, isTurned) {
  const sign = isTurned ? -1 : 1;
  return rows.map((row) => [value(row), row]).sort(([one], [other]) => {
    if (isNumber) return sign * (other - one);
    return (one === "") - (other === "") || sign * COLLATOR.compare(one, other);
  }).map(([, row]) => row);
}

// A button in the last cell of a row opens and closes what belongs to the row.
function opens(line, cell, content) {
  const button = make("button", { type: "button", class: "open", "aria-expanded": "false" }, ...cell.childNodes);
  cell.replaceChildren(button);
  button.addEventListener("click", () => {
    const isOpen = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!isOpen));
    if (isOpen) line.nextElementSibling.remove();
    else line.after(make("tr", { class: "below" }, make("td", { colspan: line.children.length }, content())));
  });
}

function eventList(chosen) {
  const more = make("button", { type: "button", class: "more" });
  const list = make("ol");
  showList(list, chosen, eventRow, more);
  return make("div", {}, list, more);
}

const documentsOf = (row) => new Set(row.map((event) => events.document.values[event])).size;
const datesOf = (row) => row.map((event) => documents.date.at(events.document.values[event])).filter(Boolean).sort();
const didOf = (event) => (events.negated.at(event) ? "not " : "") + events.did.at(event);

const DISTINCT = [
  { name: "Who", value: ([event]) => events.who.at(event) },
  { name: "Did", value: ([event]) => didOf(event) },
  { name: "To whom", value: ([event]) => events.whom.at(event) },
  { name: "Documents", isNumber: true, isMinor: true, value: documentsOf },
  { name: "First", isMinor: true, isDate: true, value: (row) => datesOf(row)[0] ?? "", cell: (row) => shownDate(datesOf(row)[0] ?? "") },
  { name: "Last", isMinor: true, isDate: true, value: (row) => datesOf(row).at(-1) ?? "", cell: (row) => shownDate(datesOf(row).at(-1) ?? "") },
  { name: "Events", isNumber: true, value: (row) => row.length },
];

function distinctTable(box, state, chosen, without = []) {
  const absent = timeLine.periods.length > 0 ? without : [...without, "First", "Last"];
  const columns = DISTINCT.filter((column) => !absent.includes(column.name));
  return showTable(box, state, columns, distinctEvents(chosen), eventList);
}

function showTableView(section, state, chosen) {
  const shown = distinctTable(section.querySelector(".rows"), state, chosen);
  document.getElementById("download").onclick = () => {
    const rows = shown.map((row) => DISTINCT.map((column) => column.value(row)));
    download("events.csv", csvOf([DISTINCT.map((column) => column.name), ...rows]), "text/csv");
  };
}

function download(name, text, type) {
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// A spreadsheet runs cells that start like a formula; an apostrophe before them makes them texts. By the mark at
// the start it recognises UTF-8.
function csvOf(rows) {
  const cell = (value) => {
    const text = typeof value === "string" ? value.replace(/^[=+\-@\t\r]/, "'$&") : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return `\ufeff${rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("")}`;
}
