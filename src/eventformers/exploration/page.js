// Starts the page, and shows what its address says.

const words = document.getElementById("words");
const typeChooser = document.getElementById("type");
const toldChooser = document.getElementById("told");
const bars = document.getElementById("bars");
const status = document.getElementById("status");
const TYPING_PAUSE = 120;
let shownFilters = null;
let waitingForMap;

function show() {
  const state = stateOf(location.hash);
  for (const view of VIEWS) {
    const section = document.getElementById(`view-${view}`);
    if (section !== null) section.hidden = view !== state.view;
  }
  for (const link of document.querySelectorAll("nav a")) {
    link.href = addressWith({ view: link.dataset.view, document: null, event: null });
    if (link.dataset.view === state.view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.getElementById("filters").hidden = state.view === "about" || state.view === "types";
  const filters = JSON.stringify([state.words, state.type, state.period, state.told]);
  if (filters !== shownFilters) showChosen(state);
  shownFilters = filters;
  // A map in a hidden view has no size.
  if (state.view === VIEWS[0] && hasBlock("map")) startMapOnce();
  return showReader(state);
}

function showChosen(state) {
  if (words.value !== state.words) words.value = state.words;
  if (typeChooser !== null) typeChooser.value = state.type ?? "";
  if (toldChooser !== null) toldChooser.value = state.told === "all" ? "all" : "";
  document.getElementById("clear").hidden =
    state.words === "" && state.type === null && state.period === "" && state.told === "";
  const chosen = chosenEvents(state);
  const found = chosenDocuments(state, chosen);
  const period = state.period ? ` from ${periodName(state.period)}` : "";
  status.textContent = chosen.length === 0 && found.length === 0
    ? "Nothing found."
    : `${counted(chosen.length, "event")} in ${counted(found.length, "document")}${period}`;
  showList(document.getElementById("event-list"), chosen, eventRow);
  showList(document.getElementById("document-list"), found, documentRow);
  if (bars !== null) showTimeLine(bars, state, state.period ? chosenEvents(state, { anyPeriod: true }) : chosen);
  // The lists come first: a map of many points takes longer.
  clearTimeout(waitingForMap);
  waitingForMap = setTimeout(() => drawMap(chosen), 50);
}

function go(changes) {
  location.hash = addressWith(changes);
}

// Typing replaces the address, so that Back leaves the search at once.
function replaceWords() {
  location.replace(addressWith({ words: words.value.trim() }));
}

function startFilters() {
  let waiting;
  words.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(replaceWords, TYPING_PAUSE);
  });
  typeChooser?.addEventListener("change", () => go({ type: typeChooser.value === "" ? null : typeChooser.value }));
  toldChooser?.addEventListener("change", () => go({ told: toldChooser.value }));
  document.getElementById("filters").addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("clear").addEventListener("click", () => {
    go({ words: "", type: null, period: "", told: "" });
    words.focus();
  });
}

// One stop of the Tab key; the arrow keys move between the bars.
function startTimeLine() {
  if (bars === null) return;
  for (const [number, period] of timeLinePeriods().entries()) {
    bars.append(make("button", { type: "button", "data-period": period, tabindex: number === 0 ? "0" : "-1" }));
  }
  document.getElementById("time-line").hidden = bars.children.length < 2;
  document.getElementById("first-period").textContent = periodName(bars.firstElementChild?.dataset.period ?? "");
  document.getElementById("last-period").textContent = periodName(bars.lastElementChild?.dataset.period ?? "");
  bars.addEventListener("click", (event) => {
    const period = event.target.dataset.period;
    if (period) go({ period: stateOf(location.hash).period === period ? "" : period });
  });
  bars.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const next = [...bars.children][[...bars.children].indexOf(event.target) + step];
    if (next === undefined) return;
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
}

function startReader() {
  document.getElementById("close").addEventListener("click", () => reader.close());
  reader.addEventListener("close", () => {
    if (stateOf(location.hash).document !== null) go({ document: null, event: null });
  });
  reader.addEventListener("click", (event) => {
    if (event.target === reader) reader.close();
  });
}

async function start() {
  [documents, events, types] = await Promise.all(["documents", "events", "types"].map(loadTable));
  eventTypes = events.type?.values ?? null;
  startFilters();
  startTimeLine();
  startReader();
  addEventListener("hashchange", show);
  await show();
  document.body.dataset.ready = "";
}

start().catch((error) => {
  status.textContent = `The page could not start (${error.message}). It needs a browser from 2023 or later.`;
  throw error;
});
