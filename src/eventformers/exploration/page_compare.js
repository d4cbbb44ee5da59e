// Over time by type, source or actor; and what differs most between two sources or periods.

const MOST_LINES = 12;
// Events with the shares of all texts that each side is given beforehand.
const PRIOR_EVENTS = 100;
const Z_95 = 1.96;

const typeName = (type) => types.name.at(type);
const familyOf = (event) => (eventTypes[event] < 0 ? "" : types.family.at(eventTypes[event]));

// What events can be counted by: the value of an event, and its name.
function countings() {
  const found = {};
  if (types !== null) {
    if (types.family.texts.some(Boolean)) found.families = { of: (event) => [familyOf(event)], name: String };
    found.types = { of: (event) => [eventTypes[event]], name: typeName };
  }
  if (actors !== null) {
    // What has no name, such as "the mayor", is in one document alone.
    const named = (actor) => (actor < 0 || /@\d+$/.test(actors.actor_id.at(actor)) ? -1 : actor);
    const of = (event) => [named(events.agent.values[event]), named(events.patient.values[event])];
    found.actors = { of, name: (actor) => actors.name.at(actor) };
  }
  found.predicates = { of: (event) => [events.did.at(event)], name: String };
  return found;
}

const sources = () => [...new Set(documents.source.texts)].filter(Boolean).sort(COLLATOR.compare);

function showCompare(section, state, chosen) {
  if (timeLine.periods.length > 1) showOverTime(section.querySelector(".over-time"), state, chosen);
  showDifferences(section.querySelector(".differences"), state);
}

function chooser(label, key, options, value) {
  const select = make("select", {}, ...options.map(([group, members]) => {
    const each = members.map(([name, text]) => make("option", { value: name }, text));
    return group === "" ? each : [make("optgroup", { label: group }, ...each)];
  }).flat());
  select.value = value;
  select.addEventListener("change", () => go({ [key]: select.value }));
  return make("label", { class: "field" }, label, select);
}

function showOverTime(box, state, chosen) {
  const by = { ...countings(), ...(sources().length > 1 ? { sources: { of: (event) => [documents.source.at(events.document.values[event])], name: String } } : {}) };
  const key = state.by in by ? state.by : Object.keys(by)[0];
  const found = new Map();
  for (const event of chosen) {
    for (const value of new Set(by[key].of(event))) {
      if (value === "" || value === -1) continue;
      if (found.has(value)) found.get(value).push(event);
      else found.set(value, [event]);
    }
  }
  const rows = [...found].sort((one, other) => other[1].length - one[1].length).slice(0, MOST_LINES);
  const lines = rows.map(([value, each]) => make("tr", {}, make("th", { scope: "row" }, by[key].name(value)),
    make("td", { class: "bars" }, smallBars(countsByPeriod(each))), make("td", { class: "number" }, NUMBERS.format(each.length))));
  const choices = [["", Object.keys(by).map((name) => [name, name[0].toUpperCase() + name.slice(1)])]];
  keepingFocus(box, () => box.replaceChildren(make("h2", {}, "Over time"), make("div", { class: "tools" }, chooser("By", "by", choices, key)),
    make("table", { class: "lines" }, make("tbody", {}, ...lines))));
}

// The parts of the texts that can be compared: sources; the first and the second half of the time, and the
// shortest periods of which there are several. A period is its first and last date.
function sides() {
  const found = { source: new Map(), period: new Map() };
  if (sources().length > 1) for (const source of sources()) found.source.set(`source=${source}`, source);
  const dates = documents.date.texts.filter((date) => /^\d{4}/.test(date));
  const length = [4, 7, 10].find((unit) => new Set(dates.map((date) => date.slice(0, unit))).size > 1);
  if (!length) return found;
  const periods = [...new Set(dates.map((date) => date.slice(0, length)))].sort();
  const half = Math.ceil(periods.length / 2);
  for (const [first, last] of [[0, half - 1], [half, periods.length - 1], ...periods.slice(-MOST_BARS).map((period) => [periods.indexOf(period)])]) {
    const [from, until] = [periods[first], periods[last ?? first]];
    found.period.set(`period=${from}..${until}`, from === until ? periodName(from) : `${periodName(from)} – ${periodName(until)}`);
  }
  return found;
}

function eventsOfSide(state, side) {
  const value = side.slice(side.indexOf("=") + 1);
  if (side.startsWith("source")) return chosenEvents({ ...state, source: value });
  const [from, until] = value.split("..");
  return chosenEvents({ ...state, from, until });
}

function showDifferences(box, state) {
  const { source, period } = sides();
  const kind = state.one.startsWith("period") || source.size === 0 ? period : source;
  if (kind.size < 2) return box.replaceChildren();
  const names = [...kind.keys()];
  const one = kind.has(state.one) ? state.one : names[0];
  const other = kind.has(state.other) && state.other !== one ? state.other : names.find((name) => name !== one);
  const options = [["Sources", [...source]], ["Periods", [...period]]].filter(([, each]) => each.length > 1);
  const [first, second] = [one, other].map((side) => eventsOfSide(state, side));
  const tables = Object.entries(countings()).map(([title, { of, name }]) => {
    const [left, right] = [first, second].map((chosen) => tally(chosen, of));
    const different = logOdds(left, right).filter(({ low, high }) => low > 0 || high < 0);
    return differenceTable(title, different, name, [kind.get(one), kind.get(other)]);
  });
  keepingFocus(box, () => box.replaceChildren(
    make("h2", {}, "What differs"),
    make("p", { class: "soft" }, "Log-odds ratio with a Dirichlet prior of all texts (Monroe et al. 2008) and its 95 % interval. Only what differs beyond chance is listed; of 20 equal things, one is listed by chance."),
    make("div", { class: "tools" }, chooser("Compare", "one", options, one), chooser("with", "other", [["", [...kind]]], other)),
    make("p", { class: "soft" }, `${counted(first.length, "event")} and ${counted(second.length, "event")}`),
    make("div", { class: "pair even" }, ...tables)));
}

function tally(chosen, of) {
  const found = new Map();
  for (const event of chosen) {
    for (const value of new Set(of(event))) {
      if (value !== "" && value !== -1) found.set(value, (found.get(value) ?? 0) + 1);
    }
  }
  return found;
}

// The log-odds ratio of each value between two maps of counts, with a 95 % interval, the surest ones first:
// Monroe, Colaresi and Quinn, "Fightin' Words", Political Analysis 16(4), 2008. The informative prior has
// PRIOR_EVENTS events, with the shares of both sides together.
function logOdds(one, other) {
  const sum = (found) => [...found.values()].reduce((total, count) => total + count, 0);
  const [n, m] = [sum(one), sum(other)];
  const values = new Set([...one.keys(), ...other.keys()]);
  return [...values].map((value) => {
    const [left, right] = [one.get(value) ?? 0, other.get(value) ?? 0];
    const prior = (PRIOR_EVENTS * (left + right)) / (n + m);
    const odds = (count, total) => Math.log((count + prior) / (total + PRIOR_EVENTS - count - prior));
    const ratio = odds(left, n) - odds(right, m);
    const error = Math.sqrt(1 / (left + prior) + 1 / (right + prior));
    return { value, left, right, ratio, low: ratio - Z_95 * error, high: ratio + Z_95 * error, z: ratio / error };
  }).sort((a, b) => Math.abs(b.z) - Math.abs(a.z));
}

function differenceTable(title, different, name, sideNames) {
  const shown = [1, -1].flatMap((sign) => different.filter(({ ratio }) => ratio * sign > 0).slice(0, MOST_LINES));
  const widest = Math.max(...shown.flatMap(({ low, high }) => [Math.abs(low), Math.abs(high)]), 1);
  const place = (ratio) => `${50 + (50 * ratio) / widest}%`;
  // What the first side has more of lies on the left, as its column of counts.
  const lines = shown.map(({ value, left, right, ratio, low, high }) => make("tr", {},
    make("th", { scope: "row" }, name(value)), make("td", { class: "number" }, NUMBERS.format(left)),
    make("td", { class: "interval" }, make("span", { role: "img", "aria-label": `${ratio.toFixed(2)}, from ${low.toFixed(2)} to ${high.toFixed(2)}`,
      title: `${ratio.toFixed(2)} [${low.toFixed(2)}, ${high.toFixed(2)}]`, "--low": place(-high), "--high": place(-low), "--middle": place(-ratio) })),
    make("td", { class: "number" }, NUMBERS.format(right))));
  const none = make("p", { class: "soft" }, "Nothing differs beyond chance.");
  const head = ["", sideNames[0], "← more of · more of →", sideNames[1]].map((text, column) => make("th", { scope: "col", class: column === 2 ? "middle" : column ? "number" : null }, text));
  return make("section", {}, make("h3", {}, title[0].toUpperCase() + title.slice(1)),
    lines.length ? make("table", { class: "odds" }, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...lines)) : none);
}
