// Lists of events and documents, in pages, and the time line.

const AT_ONCE = 30;
const NUMBERS = new Intl.NumberFormat("en");
const LONGEST_BEFORE = 90;
const LONGEST_SENTENCE = 240;

// An element with attributes and children. Texts become text nodes, so that nothing in the data is markup.
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("--")) element.style.setProperty(name, value);
    else if (value !== null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

function eventText(event) {
  return ["subject", "predicate", "object"].map((role) => events[role].at(event)).filter(Boolean).join(" ");
}

// The attributes that give an event the colour of its type; weak types and none are grey.
function typeColour(event) {
  return colourOf(eventTypes === null ? -1 : eventTypes[event]);
}

function colourOf(type) {
  return type < 0 || types.weak.at(type) !== "" ? {} : { "--hue": types.hue.at(type), "data-coloured": "" };
}

function typeTag(event) {
  if (eventTypes === null || eventTypes[event] < 0) return null;
  return make("span", { class: "type", ...typeColour(event) }, types.name.at(eventTypes[event]));
}

function factsOf(number) {
  return [shownDate(documents.date.at(number)), documents.title.at(number)].filter(Boolean).join(" · ");
}

function shownDate(date) {
  const parts = /^(\d{4})(?:-(\d\d)(?:-(\d\d))?)?/.exec(date);
  if (parts === null) return date;
  const [, year, month = "01", day = "01"] = parts;
  const moment = new Date(`${year}-${month}-${day}T00:00Z`);
  if (Number.isNaN(moment.getTime())) return date;
  const options = { year: "numeric", timeZone: "UTC" };
  if (parts[2]) options.month = "short";
  if (parts[3]) options.day = "numeric";
  return new Intl.DateTimeFormat("en-GB", options).format(moment);
}

// The sentence of an event around its trigger, without what is far from it.
async function excerpt(event) {
  const text = await documentText(events.document.at(event));
  const sentence = events.sentence_start.at(event);
  const trigger = sentence + events.trigger_offset.at(event);
  const triggerEnd = trigger + events.trigger_length.at(event);
  const start = Math.max(sentence, trigger - LONGEST_BEFORE);
  const end = Math.min(sentence + events.sentence_length.at(event), start + LONGEST_SENTENCE);
  return [
    (start > sentence ? "…" : "") + text.slice(start, trigger),
    make("mark", typeColour(event), text.slice(trigger, triggerEnd)),
    text.slice(triggerEnd, end) + (end < sentence + events.sentence_length.at(event) ? "…" : ""),
  ];
}

// Who did what to whom, each in its place.
function rolesOf(event) {
  const predicate = (events.negated.at(event) ? "not " : "") + events.predicate.at(event);
  const parts = { who: events.who.at(event), did: predicate, whom: events.whom.at(event) };
  const shown = Object.entries(parts).filter(([, text]) => text !== "");
  return make("span", { class: "event" }, ...shown.flatMap(([role, text]) => [make("span", { class: role }, text), " "]));
}

function eventRow(event) {
  const sentence = make("span", { class: "sentence" });
  excerpt(event).then((parts) => sentence.replaceChildren(...parts));
  const about = make("span", { class: "cut" }, factsOf(events.document.at(event)));
  const facts = make("span", { class: "facts" }, typeTag(event), about);
  return make("li", {}, make("a", { class: "row", href: eventAddress(event) }, rolesOf(event), sentence, facts));
}

function documentRow([number, count]) {
  const facts = [shownDate(documents.date.at(number)), documents.source.at(number), counted(count, "event")];
  const title = make("span", { class: "sentence" }, documents.title.at(number));
  const about = make("span", { class: "facts" }, facts.filter(Boolean).join(" · "));
  return make("li", {}, make("a", { class: "row", href: addressWith({ view: "documents", document: number }) }, title, about));
}

function counted(count, noun) {
  return `${NUMBERS.format(count)} ${noun}${count === 1 ? "" : "s"}`;
}

// Fills a list or the body of a table with the first items, and adds more when asked.
function showList(list, items, row, more = list.nextElementSibling) {
  let shown = 0;
  const add = () => {
    const added = items.slice(shown, shown + AT_ONCE).map(row);
    list.append(...added);
    shown += added.length;
    more.hidden = shown >= items.length;
    more.textContent = `Show ${Math.min(AT_ONCE, items.length - shown)} more of ${NUMBERS.format(items.length)}`;
    return added[0];
  };
  list.replaceChildren();
  add();
  more.onclick = () => add().querySelector("a, button").focus();
}

// The time line has at most this many bars, of days, months, years, decades or centuries.
const MOST_BARS = 60;
const UNITS = [10, 7, 4, 3, 2];

function periodsBetween(first, last, length) {
  const periods = [];
  const day = new Date(`${first.padEnd(10, "-01".repeat(2))}T00:00Z`);
  if (length < 4) {
    for (let number = Number(first.slice(0, length)); number <= Number(last.slice(0, length)); number++) {
      periods.push(String(number).padStart(length, "0"));
    }
    return periods;
  }
  for (; day.toISOString().slice(0, length) <= last.slice(0, length); ) {
    periods.push(day.toISOString().slice(0, length));
    if (periods.length > MOST_BARS) break;
    if (length === 10) day.setUTCDate(day.getUTCDate() + 1);
    else if (length === 7) day.setUTCMonth(day.getUTCMonth() + 1, 1);
    else day.setUTCFullYear(day.getUTCFullYear() + 1, 0, 1);
  }
  return periods;
}

// The periods of the time line, and the number of that of each document, -1 without a date.
const timeLine = { periods: [], ofDocument: null };

function startPeriods() {
  timeLine.periods = timeLinePeriods();
  const numbers = new Map(timeLine.periods.map((period, number) => [period, number]));
  const length = timeLine.periods[0]?.length ?? 0;
  timeLine.ofDocument = Int32Array.from({ length: documents.rows }, (_, document) =>
    numbers.get(documents.date.at(document).slice(0, length)) ?? -1);
}

function timeLinePeriods() {
  const isDate = (date) => /^\d{4}(-\d\d(-\d\d)?)?$/.test(date) && !Number.isNaN(Date.parse(date));
  const days = new Set(documents.date.texts.map((date) => date.slice(0, 10)));
  const dates = [...days].filter(isDate).sort();
  if (dates.length === 0) return [];
  const precision = Math.min(...dates.map((date) => date.length));
  for (const length of UNITS.filter((unit) => unit <= precision)) {
    const periods = periodsBetween(dates[0], dates.at(-1), length);
    if (periods.length <= MOST_BARS) return periods;
  }
  return [];
}

// The number of events in each period of the time line.
function countsByPeriod(chosen) {
  const counts = new Array(timeLine.periods.length).fill(0);
  for (const event of chosen) {
    const period = timeLine.ofDocument[events.document.values[event]];
    if (period >= 0) counts[period]++;
  }
  return counts;
}

// Small bars of counts, which say where the highest one is.
function smallBars(counts, highest = Math.max(...counts)) {
  const top = counts.indexOf(Math.max(...counts));
  const says = `Most in ${periodName(timeLine.periods[top])}: ${counted(counts[top], "event")}`;
  const bars = counts.map((count, number) =>
    make("i", { "--share": count / Math.max(1, highest), title: `${periodName(timeLine.periods[number])}: ${counted(count, "event")}` }));
  return make("span", { class: "small-bars", role: "img", "aria-label": says }, ...bars);
}

function showTimeLine(bars, state, chosen) {
  const counts = countsByPeriod(chosen);
  const highest = Math.max(1, ...counts);
  for (const [number, bar] of [...bars.children].entries()) {
    const period = timeLine.periods[number];
    bar.style.setProperty("--share", counts[number] / highest);
    bar.setAttribute("aria-label", `${periodName(period)}: ${counted(counts[number], "event")}`);
    bar.title = bar.getAttribute("aria-label");
    bar.setAttribute("aria-pressed", String(state.from === period && state.until === period));
  }
}

function periodName(period) {
  return period.length < 4 ? `${period.padEnd(4, "0")}–${period.padEnd(4, "9")}` : shownDate(period);
}
