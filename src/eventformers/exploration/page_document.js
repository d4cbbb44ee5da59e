// The reader: a document with its triggers, and everything known about one event of it.

const reader = document.getElementById("reader");
const readerText = document.getElementById("reader-text");
const readerEvent = document.getElementById("reader-event");
let readDocument = null;
let wanted = null;

async function showReader(state) {
  wanted = state;
  if (state.document === null) {
    if (reader.open) reader.close();
    // Its links keep the filters of the address.
    readDocument = null;
    return;
  }
  if (readDocument !== state.document) {
    const text = await documentText(state.document);
    if (wanted !== state) return;
    fillReader(state.document, text);
  }
  if (!reader.open) reader.showModal();
  for (const link of readerText.querySelectorAll(".trigger")) {
    const isShown = Number(link.dataset.event) === state.event;
    link.toggleAttribute("data-shown", isShown);
    link.setAttribute("aria-current", String(isShown));
    if (isShown) link.scrollIntoView({ block: "center" });
  }
  readerEvent.hidden = state.event === null;
  if (state.event === null) return;
  const parts = await eventParts(state.event);
  if (wanted !== state) return;
  readerEvent.replaceChildren(...parts);
  readerEvent.scrollTop = 0;
}

function fillReader(number, text) {
  readDocument = number;
  document.getElementById("reader-title").textContent = documents.title.at(number);
  const facts = [shownDate(documents.date.at(number)), documents.source.at(number), documents.license.at(number)];
  const shownFacts = document.getElementById("reader-facts");
  shownFacts.textContent = facts.filter(Boolean).join(" · ");
  const address = documents.url.at(number);
  // Other addresses, such as javascript:, would run.
  if (/^https?:\/\//i.test(address)) {
    const link = make("a", { href: address, rel: "noopener noreferrer", target: "_blank" }, "Source");
    shownFacts.append(shownFacts.textContent ? " · " : "", link);
  }
  const [first, end] = rowsWith(events.document, number);
  const triggers = [];
  for (let event = first; event < end; event++) {
    const start = events.sentence_start.at(event) + events.trigger_offset.at(event);
    triggers.push({ event, start, end: start + events.trigger_length.at(event) });
  }
  triggers.sort((one, other) => one.start - other.start);
  let place = 0;
  readerText.replaceChildren();
  for (const trigger of triggers) {
    if (trigger.start < place || trigger.end <= trigger.start) continue;
    appendText(text.slice(place, trigger.start));
    readerText.append(triggerLink(trigger.event, text.slice(trigger.start, trigger.end)));
    place = trigger.end;
  }
  appendText(text.slice(place, text.length));
  readerText.scrollTop = 0;
  document.getElementById("reader-title").focus();
}

function appendText(text) {
  for (const [number, paragraph] of text.split(/\s*\n\s*/).entries()) {
    if (number > 0) readerText.append(make("span", { class: "break" }));
    readerText.append(paragraph);
  }
}

function triggerLink(event, trigger) {
  const type = eventTypes !== null && eventTypes[event] >= 0 ? types.name.at(eventTypes[event]) : "";
  const attributes = { class: "trigger", href: eventAddress(event), "data-event": event, title: type || null };
  return make("a", { ...attributes, ...typeColour(event) }, trigger);
}

async function eventParts(event) {
  const sections = [linksPart, chainsPart, completionsPart, similarPart].map((section) => section(event));
  const parts = [rolesPart(event), typePart(event), ...(await Promise.all(sections)).flat()];
  return parts.filter((each) => each !== null);
}

function rolesPart(event) {
  const list = make("dl", { class: "roles" });
  const values = (names) => names.map((name) => events[name].at(event)).filter(Boolean);
  const rows = {
    subject: values(["subject_span", "subject"])[0],
    predicate: events.predicate.at(event),
    object: values(["object_span", "object"])[0],
    when: values(["time_text", "time_start"]).join(", "),
    where: values(["place_text", "country"]).join(", "),
    "told as": events.factuality.at(event),
    form: ["negated", "passive"].filter((name) => events[name].at(event)).join(", "),
  };
  for (const [name, text] of Object.entries(rows)) {
    if (text) list.append(make("div", {}, make("dt", {}, name), make("dd", {}, text)));
  }
  return list;
}

function part(title, ...children) {
  return make("section", {}, make("h3", {}, title), ...children);
}

function scored(text, score, href = null, note = "") {
  const name = href === null ? make("span", {}, text) : make("a", { href }, text);
  const about = note ? make("small", {}, note) : null;
  return make("li", {}, make("span", {}, name, about), make("span", { class: "score" }, score.toFixed(2)));
}

function typePart(event) {
  if (eventTypes === null || eventTypes[event] < 0) return null;
  const type = eventTypes[event];
  const weak = types.weak.at(type);
  const address = addressWith({ view: "", type, event: null, document: null });
  return part("Type", make("a", { href: address }, typeTag(event)), weak ? make("p", { class: "weak" }, `Weak: ${weak}`) : null);
}

async function linksPart(event) {
  const links = await loadTable("links");
  if (links === null) return [];
  const [first, end] = rowsWith(links.event, event);
  if (first === end) return [];
  const list = make("ol", { class: "scores" });
  const isNull = !links.linked.values.subarray(first, end).some(Boolean);
  for (let row = first; row < end; row++) {
    const ancestors = links.ancestors.at(row);
    const note = [links.knowledge_base_id.at(row), ...(ancestors.length ? [ancestors.join(" › ")] : [])].join(" · ");
    const item = scored(links.title.at(row), links.score.at(row), null, note);
    item.toggleAttribute("data-rejected", !links.linked.at(row));
    list.append(item);
  }
  const none = make("p", { class: "weak" }, "NULL: no entry of the knowledge base fits. Nearest entries:");
  return [part("Link to the knowledge base", isNull ? none : null, list)];
}

async function chainsPart(event) {
  const [chains, next] = await Promise.all([loadTable("chains"), loadTable("next")]);
  if (chains === null) return [];
  const parts = [];
  for (const chain of chainsOf(chains, event)) {
    const steps = make("ol", { class: "chain" });
    for (const each of chains.events.at(chain)) {
      if (each < 0) continue;
      const current = each === event ? "step" : null;
      steps.append(make("li", {}, make("a", { href: eventAddress(each), "aria-current": current }, eventText(each))));
    }
    parts.push(part(`Chain of ${chains.protagonist.at(chain)}`, steps));
    if (next !== null) parts.push(...nextPart(next, chain));
  }
  return parts;
}

let chainsByEvent = null;

function chainsOf(chains, event) {
  if (chainsByEvent === null) {
    chainsByEvent = new Map();
    for (let chain = 0; chain < chains.rows; chain++) {
      for (const each of chains.events.at(chain)) {
        if (chainsByEvent.has(each)) chainsByEvent.get(each).push(chain);
        else chainsByEvent.set(each, [chain]);
      }
    }
  }
  return chainsByEvent.get(event) ?? [];
}

function nextPart(next, chain) {
  const [first, end] = rowsWith(next.chain, chain);
  if (first === end) return [];
  const list = make("ol", { class: "scores" });
  for (let row = first; row < end; row++) {
    const event = next.event.at(row);
    const note = event < 0 ? "" : documents.title.at(events.document.at(event));
    list.append(scored(next.text.at(row), next.score.at(row), event < 0 ? null : eventAddress(event), note));
  }
  return [part("Related events", make("p", { class: "weak" }, document.body.dataset.related), list)];
}

async function completionsPart(event) {
  const completions = await loadTable("completions");
  if (completions === null) return [];
  const [first, end] = rowsWith(completions.text_number, events.text_number.at(event));
  if (first === end) return [];
  const relations = new Map();
  for (let row = first; row < end; row++) {
    const relation = completions.relation.at(row);
    if (!relations.has(relation)) relations.set(relation, make("ol", { class: "scores" }));
    relations.get(relation).append(scored(completions.tail.at(row), completions.score.at(row)));
  }
  const note = make("p", { class: "weak" }, document.body.dataset.completed);
  return [part("Completions", note, ...[...relations].flatMap(([relation, list]) => [make("h4", {}, relation), list]))];
}

let mapRows = null;

async function similarPart(event) {
  const points = await loadTable("map");
  if (points === null) return [];
  if (mapRows === null) {
    mapRows = new Int32Array(events.rows).fill(-1);
    points.event.values.forEach((each, row) => { mapRows[each] = row; });
  }
  const row = mapRows[event];
  if (row < 0) return [];
  const neighbours = await loadTable(`neighbours-${Math.floor(row / NEIGHBOURS_TOGETHER)}`);
  const place = row % NEIGHBOURS_TOGETHER;
  const cosines = neighbours.cosine.at(place);
  const list = make("ol", { class: "scores", id: "similar" });
  for (const [number, each] of neighbours.event.at(place).entries()) {
    if (each === event) continue;
    const note = documents.title.at(events.document.at(each));
    list.append(scored(eventText(each), cosines[number], eventAddress(each), note));
  }
  return list.children.length ? [part("More like this", list)] : [];
}
