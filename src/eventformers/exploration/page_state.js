// What the page shows: its address holds the view, the filters, and the open document.

const VIEWS = ["events", "table", "actors", "stories", "places", "compare", "documents", "types", "about"];
const ROLES = ["who", "did", "whom"];
// Numbers of rows in the tables of these names.
const NUMBERED = ["type", "place", "actor", "story"];
const FILTERS = ["words", ...ROLES, ...NUMBERED, "told", "source", "from", "until"];
const KEYS = ["view", ...FILTERS, "sort", "by", "one", "other", "document", "event"];
const CLEARED = Object.fromEntries(FILTERS.map((key) => [key, ""]));
let documents, events, types, actors, stories, places;
let eventTypes = null;
// All events, the most specific to these texts first.
let eventOrder;

function stateOf(hash) {
  const given = new URLSearchParams(hash.slice(1));
  const state = Object.fromEntries(KEYS.map((key) => [key, given.get(key) ?? ""]));
  if (!VIEWS.includes(state.view) || document.getElementById(`view-${state.view}`) === null) state.view = VIEWS[0];
  state.event = numberBelow(state.event, events.rows);
  state.document = state.event === null ? numberBelow(state.document, documents.rows) : events.document.at(state.event);
  const tables = { type: types, place: places, actor: actors, story: stories };
  for (const key of NUMBERED) state[key] = numberBelow(state[key], tables[key]?.rows ?? 0);
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

const wordsIn = (text) => folded([text])[0].split(" ").filter(Boolean);

// For each event 1 if some of the columns hold all words, each in any of them.
function roleHits(text, columns) {
  const hits = new Uint8Array(events.rows).fill(1);
  for (const word of wordsIn(text)) {
    const found = new Uint8Array(events.rows);
    for (const column of columns) {
      const flags = flagsOf(column, word);
      for (let event = 0; event < found.length; event++) found[event] |= flags[column.values[event]];
    }
    for (let event = 0; event < hits.length; event++) hits[event] &= found[event];
  }
  return hits;
}

// For each event 2 if its roles hold all words, 1 if the title of its document completes them, otherwise 0.
function wordHits(words) {
  const hits = new Uint8Array(events.rows).fill(2);
  const roles = [events.subject, events.did, events.object, events.predicate, events.who, events.whom];
  for (const word of wordsIn(words)) {
    const inRoles = roleHits(word, roles);
    const titles = flagsOf(documents.title, word);
    for (let event = 0; event < events.rows; event++) {
      if (inRoles[event]) continue;
      const inTitle = titles[documents.title.values[events.document.values[event]]];
      hits[event] = inTitle ? Math.min(hits[event], 1) : 0;
    }
  }
  return hits;
}

function inPeriod(date, { from, until }) {
  return (from === "" || (date !== "" && date.slice(0, from.length) >= from)) &&
    (until === "" || (date !== "" && date.slice(0, until.length) <= until));
}

const filteredDocuments = (state) => Uint8Array.from({ length: documents.rows }, (_, number) =>
  inPeriod(documents.date.at(number), state) && (state.source === "" || documents.source.at(number) === state.source) ? 1 : 0);

// The events that pass the filters, those with all words in their roles first, then the most specific ones.
function chosenEvents(state) {
  const hits = wordHits(state.words);
  const inDocuments = filteredDocuments(state);
  const tests = [];
  const test = (values, wanted) => tests.push((event) => values[event] === wanted);
  if (state.told === "") tests.push((event) => events.counted.values[event]);
  else if (state.told !== "all") test(events.factuality.values, events.factuality.texts.indexOf(state.told));
  if (state.type !== null) test(eventTypes, state.type);
  if (state.place !== null) test(events.place.values, state.place);
  if (state.story !== null) test(events.story.values, state.story);
  if (state.actor !== null) tests.push((event) => takesPart(state.actor, event));
  const searched = { who: [events.who, events.subject], did: [events.did, events.predicate], whom: [events.whom, events.object] };
  for (const role of ROLES) {
    if (state[role] === "") continue;
    const found = roleHits(state[role], searched[role]);
    tests.push((event) => found[event]);
  }
  const chosen = [[], []];
  for (const event of eventOrder) {
    if (!hits[event] || !inDocuments[events.document.values[event]]) continue;
    if (tests.every((each) => each(event))) chosen[2 - hits[event]].push(event);
  }
  return chosen[0].concat(chosen[1]);
}

const takesPart = (actor, event) => events.agent.values[event] === actor || events.patient.values[event] === actor;

// Events with the same who, did and whom are one distinct event, from the most specific on.
function distinctEvents(chosen) {
  const rows = new Map();
  const [who, did, whom, negated] = ["who", "did", "whom", "negated"].map((name) => events[name].values);
  const [dids, whoms] = [events.did.texts.length, events.whom.texts.length];
  for (const event of chosen) {
    const key = ((who[event] * dids + did[event]) * whoms + whom[event]) * 2 + negated[event];
    const row = rows.get(key);
    if (row === undefined) rows.set(key, [event]);
    else row.push(event);
  }
  const specificity = (row) => row.length * events.specificity.values[row[0]];
  return [...rows.values()].sort((one, other) => specificity(other) - specificity(one) || one[0] - other[0]);
}

// The first mention of each distinct event, then the second ones, and so on.
function orderedEvents() {
  const rounds = [];
  for (const row of distinctEvents(Array.from({ length: events.rows }, (_, event) => event))) {
    row.forEach((event, round) => (rounds[round] ??= []).push(event));
  }
  return Int32Array.from(rounds.flat());
}

// Numbers of documents: those of the events, and without other filters those whose title holds all words.
function chosenDocuments(state, chosen) {
  const counts = new Map();
  for (const event of chosen) {
    const number = events.document.values[event];
    counts.set(number, (counts.get(number) ?? 0) + 1);
  }
  const isNarrowed = [...ROLES, ...NUMBERED].some((key) => state[key] !== null && state[key] !== "");
  if (!isNarrowed) {
    const inDocuments = filteredDocuments(state);
    const flags = wordsIn(state.words).map((word) => flagsOf(documents.title, word));
    for (let number = 0; number < documents.rows; number++) {
      const inTitle = flags.every((flag) => flag[documents.title.values[number]]);
      if (inTitle && inDocuments[number] && !counts.has(number)) counts.set(number, 0);
    }
  }
  const found = [...counts];
  const isFiltered = state.words !== "" || isNarrowed;
  return found.sort((one, other) => (isFiltered ? other[1] - one[1] : 0) || one[0] - other[0]);
}
