// Starts the page, and shows what its address says.

const words = document.getElementById("words");
const controls = [...document.querySelectorAll("[data-filter]")];
const bars = document.getElementById("bars");
const status = document.getElementById("status");
const moreFilters = document.getElementById("more-filters");
const fine = document.getElementById("fine");
const TYPING_PAUSE = 120;
const MOST_CHOICES = 300;
let shownFilters = null;
let waitingForMap;

// What fills each view with the chosen events; the other views are whole from the start.
const FILL = {
  events: (section, state, chosen) => {
    showList(document.getElementById("event-list"), chosen, eventRow);
    if (!hasBlock("map")) return;
    // A map in a hidden view has no size.
    startMapOnce();
    // The list comes first: a map of many points takes longer.
    clearTimeout(waitingForMap);
    waitingForMap = setTimeout(() => drawMap(chosen), 50);
  },
  documents: (section, state, chosen) => {
    showList(document.getElementById("document-list"), chosenDocuments(state, chosen), documentRow);
  },
  table: showTableView,
  actors: showActors,
  stories: showStories,
  places: showPlaces,
  compare: showCompare,
};

function show() {
  const state = stateOf(location.hash);
  for (const view of VIEWS) {
    const section = document.getElementById(`view-${view}`);
    if (section !== null) section.hidden = view !== state.view;
  }
  for (const link of document.querySelectorAll("nav a")) {
    link.href = addressWith({ view: link.dataset.view, document: null, event: null, sort: "" });
    if (link.dataset.view === state.view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.getElementById("filters").hidden = !(state.view in FILL);
  // The reader lies above what is shown.
  const filters = JSON.stringify({ ...state, document: null, event: null });
  if (filters !== shownFilters) showChosen(state);
  shownFilters = filters;
  return showReader(state);
}

function showChosen(state) {
  for (const control of controls) {
    const value = String(state[control.dataset.filter] ?? "");
    if (control.value !== value && control.value.trim() !== value) control.value = value;
  }
  if (controls.some((control) => fine.contains(control) && control.value !== "")) openFine(true);
  document.getElementById("clear").hidden = FILTERS.every((key) => state[key] === null || state[key] === "");
  const chosen = chosenEvents(state);
  const found = chosenDocuments(state, chosen);
  const period = state.from && state.from === state.until ? ` from ${periodName(state.from)}` : "";
  status.textContent = chosen.length === 0 && found.length === 0
    ? "Nothing found."
    : `${counted(chosen.length, "event")} in ${counted(found.length, "document")}${period}`;
  showChips(state);
  FILL[state.view]?.(document.getElementById(`view-${state.view}`), state, chosen);
  if (bars === null) return;
  const isNarrow = state.from !== "" || state.until !== "";
  showTimeLine(bars, state, isNarrow ? chosenEvents({ ...state, from: "", until: "" }) : chosen);
}

// The filters without a field of their own; a click takes one away.
function showChips(state) {
  const names = { actor: actors, story: stories };
  const chips = Object.keys(names).filter((key) => state[key] !== null);
  document.getElementById("chips").replaceChildren(...chips.map((key) =>
    make("a", { class: "chip", href: addressWith({ [key]: null }), "aria-label": `Without the ${key} ${names[key].name.at(state[key])}` }, `${names[key].name.at(state[key])} ×`)));
}

function go(changes) {
  location.hash = addressWith(changes);
}

function openFine(isOpen) {
  fine.hidden = !isOpen;
  moreFilters.setAttribute("aria-expanded", String(isOpen));
}

function startFilters() {
  let waiting;
  for (const control of controls) {
    const change = () => ({ [control.dataset.filter]: control.value.trim() });
    if (control.tagName === "SELECT") control.addEventListener("change", () => go(change()));
    // Typing replaces the address, so that Back leaves the search at once.
    else control.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => location.replace(addressWith(change())), TYPING_PAUSE);
    });
  }
  const fill = (id, choices) => document.getElementById(id)?.append(...choices.map(([value, text]) => make("option", { value }, text)));
  fill("source", sources().map((source) => [source, source]));
  if (places !== null) {
    const all = Array.from({ length: events.rows }, (_, event) => event);
    fill("place", counts(all, (event) => events.place.at(event)).slice(0, MOST_CHOICES).map(([place, count]) => [place, `${places.name.at(place)} (${count})`]));
  }
  moreFilters.addEventListener("click", () => openFine(fine.hidden));
  document.getElementById("filters").addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("clear").addEventListener("click", () => {
    go(CLEARED);
    words.focus();
  });
}

// One stop of the Tab key; the arrow keys move between the bars.
function startTimeLine() {
  if (bars === null) return;
  for (const [number, period] of timeLine.periods.entries()) {
    bars.append(make("button", { type: "button", "data-period": period, tabindex: number === 0 ? "0" : "-1" }));
  }
  document.getElementById("time-line").hidden = bars.children.length < 2;
  document.getElementById("first-period").textContent = periodName(bars.firstElementChild?.dataset.period ?? "");
  document.getElementById("last-period").textContent = periodName(bars.lastElementChild?.dataset.period ?? "");
  bars.addEventListener("click", (event) => {
    const period = event.target.dataset.period;
    if (!period) return;
    const { from, until } = stateOf(location.hash);
    const isOn = from === period && until === period;
    go({ from: isOn ? "" : period, until: isOn ? "" : period });
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
  const names = ["documents", "events", "types", "actors", "stories", "places"];
  [documents, events, types, actors, stories, places] = await Promise.all(names.map(loadTable));
  eventTypes = events.type?.values ?? null;
  eventOrder = orderedEvents();
  startPeriods();
  startFilters();
  startTimeLine();
  startReader();
  startTypeEdits();
  document.getElementById("download-edits").addEventListener("click", downloadEdits);
  addEventListener("hashchange", show);
  await show();
  document.body.dataset.ready = "";
}

start().catch((error) => {
  status.textContent = `The page could not start (${error.message}). It needs a browser from 2023 or later.`;
  throw error;
});
