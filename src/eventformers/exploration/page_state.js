// What the page shows: its address holds the view, the filters, and the open document.

const VIEWS = ["events", "documents", "types", "about"];
const KEYS = ["view", "words", "type", "period", "told", "document", "event"];
let documents, events, types;
let eventTypes = null;

function stateOf(hash) {
  const given = new URLSearchParams(hash.slice(1));
  const state = Object.fromEntries(KEYS.map((key) => [key, given.get(key) ?? ""]));
  if (!VIEWS.includes(state.view)) state.view = VIEWS[0];
  state.event = numberBelow(state.event, events.rows);
  state.document = state.event === null ? numberBelow(state.document, documents.rows) : events.document.at(state.event);
  state.type = types === null ? null : numberBelow(state.type, types.rows);
  return state;
}

function numberBelow(text, end) {
  return /^\d+$/.test(text) && Number(text) < end ? Number(text) : null;
}

// The address of the present state with some changes.
function addressWith(changes) {
  const next = { ...stateOf(location.hash), ...changes };
  if (next.event !== null) next.document = null;
  if (next.view === VIEWS[0]) next.view = "";
  const given = new URLSearchParams();
  for (const key of KEYS) if (next[key] !== null && next[key] !== "") given.set(key, next[key]);
  return `#${given}`;
}

const eventAddress = (event) => addressWith({ event });

// Texts in lower case, without accents, with one blank for what is not a letter or digit, and one before.
const BETWEEN = "\u001f";

function folded(texts) {
  const together = ` ${texts.join(`${BETWEEN} `)}`.normalize("NFD").toLowerCase();
  return together.replace(/\p{M}+/gu, "").replace(/[^\p{L}\p{N}\u001f]+/gu, " ").split(BETWEEN);
}

const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]/u;
const foldedColumns = new Map();

function flagsOf(column, word) {
  if (!foldedColumns.has(column)) foldedColumns.set(column, folded(column.texts));
  const wanted = UNSPACED.test(word) ? word : ` ${word}`;
  return Uint8Array.from(foldedColumns.get(column), (text) => (text.includes(wanted) ? 1 : 0));
}

// For each event 2 if its roles hold all words, 1 if the title of its document completes them, otherwise 0.
function wordHits(words) {
  const hits = new Uint8Array(events.rows).fill(2);
  const roles = [events.subject, events.predicate, events.object, events.lemma];
  for (const word of folded([words])[0].split(" ").filter(Boolean)) {
    const flags = roles.map((column) => flagsOf(column, word));
    const values = roles.map((column) => column.values);
    const titles = flagsOf(documents.title, word);
    for (let event = 0; event < events.rows; event++) {
      const inRoles =
        flags[0][values[0][event]] | flags[1][values[1][event]] | flags[2][values[2][event]] | flags[3][values[3][event]];
      const inTitle = titles[documents.title.values[events.document.values[event]]];
      hits[event] = inRoles ? hits[event] : inTitle ? Math.min(hits[event], 1) : 0;
    }
  }
  return hits;
}

// The events that pass the filters, those with all words in their roles first.
function chosenEvents(state, { anyPeriod = false } = {}) {
  const hits = wordHits(state.words);
  const inPeriod = Uint8Array.from({ length: documents.rows }, (_, number) =>
    anyPeriod || documents.date.at(number).startsWith(state.period) ? 1 : 0);
  const chosen = [[], []];
  for (let event = 0; event < events.rows; event++) {
    if (!hits[event] || !inPeriod[events.document.values[event]]) continue;
    if (!events.counted.values[event] && state.told !== "all") continue;
    if (state.type === null || eventTypes[event] === state.type) chosen[2 - hits[event]].push(event);
  }
  return chosen[0].concat(chosen[1]);
}

// Numbers of documents: those of the events, and without a type those whose title holds all words.
function chosenDocuments(state, chosen) {
  const counts = new Map();
  for (const event of chosen) {
    const number = events.document.values[event];
    counts.set(number, (counts.get(number) ?? 0) + 1);
  }
  if (state.type === null) {
    const flags = folded([state.words])[0].split(" ").filter(Boolean).map((word) => flagsOf(documents.title, word));
    for (let number = 0; number < documents.rows; number++) {
      const inTitle = flags.every((flag) => flag[documents.title.values[number]]);
      if (inTitle && !counts.has(number) && documents.date.at(number).startsWith(state.period)) counts.set(number, 0);
    }
  }
  const found = [...counts];
  const isFiltered = state.words !== "" || state.type !== null;
  return found.sort((one, other) => (isFiltered ? other[1] - one[1] : 0) || one[0] - other[0]);
}
