// Actors: how often they act and are acted on, over time; one actor's own view; and who acts on whom.

function actorCounts(chosen) {
  const [agent, patient] = ["agent", "patient"].map((role) => {
    const counts = new Int32Array(actors.rows);
    for (const event of chosen) {
      const actor = events[role].values[event];
      if (actor >= 0) counts[actor]++;
    }
    return counts;
  });
  return { agent, patient };
}

function showActors(section, state, chosen) {
  const own = section.querySelector(".own");
  own.replaceChildren();
  if (state.actor !== null) own.append(...actorParts(state, chosen));
  section.querySelector(".pair").hidden = state.actor !== null;
  if (state.actor !== null) return;
  const { agent, patient } = actorCounts(chosen);
  const rows = Array.from({ length: actors.rows }, (_, actor) => actor).filter((actor) => agent[actor] + patient[actor] > 0);
  rows.sort((one, other) => agent[other] + patient[other] - agent[one] - patient[one]);
  const partIn = (actor) => chosen.filter((event) => takesPart(actor, event));
  const columns = [
    { name: "Actor", value: (actor) => actors.name.at(actor), cell: actorLink },
    { name: "Kind", value: (actor) => actors.kind.at(actor), isMinor: true },
    ...(timeLine.periods.length > 1 ? [{ name: "Over time", isMinor: true, cell: (actor) => smallBars(countsByPeriod(partIn(actor))) }] : []),
    { name: "Acts", isNumber: true, value: (actor) => agent[actor] },
    { name: "Is acted on", isNumber: true, value: (actor) => patient[actor] },
  ];
  showTable(section.querySelector(".rows"), state, columns, rows);
  showNetwork(section.querySelector(".network"), chosen);
}

const actorLink = (actor) => make("a", { href: addressWith({ view: "actors", actor, sort: "" }) }, actors.name.at(actor));

// The values of some events with their counts, the most frequent first.
function counts(chosen, valueOf) {
  const found = new Map();
  for (const event of chosen) {
    const value = valueOf(event);
    if (value !== "" && value !== -1) found.set(value, (found.get(value) ?? 0) + 1);
  }
  return [...found].sort((one, other) => other[1] - one[1]);
}

const MOST_IN_A_PART = 12;

function countedList(title, found, link) {
  const shown = found.slice(0, MOST_IN_A_PART);
  if (shown.length === 0) return null;
  const items = shown.map(([value, count]) => make("li", {}, link(value), make("span", { class: "score" }, NUMBERS.format(count))));
  return part(title, make("ol", { class: "scores" }, ...items));
}

function actorParts(state, chosen) {
  const { actor } = state;
  const acts = chosen.filter((event) => events.agent.values[event] === actor);
  const isActedOn = chosen.filter((event) => events.patient.values[event] === actor);
  const aliases = actors.aliases.at(actor);
  const about = [actors.kind.at(actor), aliases.length ? `also ${aliases.join(", ")}` : ""].filter(Boolean).join(" · ");
  const other = (role) => (event) => (events[role].values[event] === actor ? -1 : events[role].values[event]);
  const tables = [["Did", acts], ["Was done to", isActedOn]].filter(([, each]) => each.length > 0).map(([title, each]) => {
    const box = make("div", { class: "rows" });
    distinctTable(box, state, each);
    return make("section", {}, make("h3", {}, `${title} (${NUMBERS.format(each.length)})`), box);
  });
  const whole = timeLine.periods.length > 1 ? make("div", { class: "large" }, smallBars(countsByPeriod(chosen))) : null;
  const lists = [
    countedList("Acted on", counts(acts, other("patient")), actorLink),
    countedList("Was acted on by", counts(isActedOn, other("agent")), actorLink),
    countedList("When, by the texts", counts(chosen, (event) => events.time_start.at(event)), (time) => make("span", {}, shownDate(time))),
    places && countedList("Where", counts(chosen, (event) => events.place.at(event)), (place) => make("a", { href: addressWith({ place }) }, places.name.at(place))),
    stories && countedList("Stories", counts(chosen, (event) => events.story.at(event)), storyLink),
    types && countedList("Types", counts(chosen, (event) => eventTypes[event]), (type) => make("a", { href: addressWith({ type }) }, typeName(type))),
  ];
  return [
    make("a", { href: addressWith({ actor: null }), class: "back" }, "All actors"),
    make("h2", {}, actors.name.at(actor)),
    make("p", { class: "soft" }, about),
    ...(whole ? [whole] : []),
    make("div", { class: "pair" }, make("div", {}, ...tables), make("div", { class: "lists" }, ...lists.filter(Boolean))),
  ];
}

// The network of the actors that act most on each other, at the places that the page was given.
async function showNetwork(figure, chosen) {
  const network = await loadTable("network");
  if (network === null) return;
  const nodes = new Map(Array.from(network.actor.values, (actor, row) => [actor, row]));
  const edges = new Map();
  for (const event of chosen) {
    const [from, to] = [nodes.get(events.agent.values[event]), nodes.get(events.patient.values[event])];
    if (from === undefined || to === undefined || from === to) continue;
    const key = `${from} ${to}`;
    edges.set(key, (edges.get(key) ?? 0) + 1);
  }
  figure.hidden = edges.size === 0;
  const used = new Map();
  const lines = [...edges].map(([key, count]) => {
    const [from, to] = key.split(" ").map(Number);
    for (const node of [from, to]) used.set(node, (used.get(node) ?? 0) + count);
    const [x1, y1, x2, y2] = [network.x.at(from), network.y.at(from), network.x.at(to), network.y.at(to)];
    const bend = [(x1 + x2) / 2 + (y2 - y1) / 8, (y1 + y2) / 2 - (x2 - x1) / 8];
    const says = `${actors.name.at(network.actor.at(from))} acts on ${actors.name.at(network.actor.at(to))}: ${count}`;
    return draw("path", { d: `M${x1} ${y1}Q${bend} ${x2} ${y2}`, "stroke-width": Math.sqrt(count) * 0.35, "marker-end": "url(#arrow)" }, draw("title", {}, says));
  });
  const points = [...used].map(([node, count]) => {
    const actor = network.actor.at(node);
    const [x, y] = [network.x.at(node), network.y.at(node)];
    const name = actors.name.at(actor);
    return draw("a", { href: addressWith({ view: "actors", actor, sort: "" }), tabindex: "-1" },
      draw("circle", { cx: x, cy: y, r: 0.5 + Math.sqrt(count) * 0.22 }),
      draw("text", { x, y: y - 1.4 }, name.length > 22 ? `${name.slice(0, 21)}…` : name));
  });
  const arrow = draw("marker", { id: "arrow", viewBox: "0 0 6 6", refX: 9, refY: 3, markerWidth: 5, markerHeight: 5, markerUnits: "userSpaceOnUse", orient: "auto" }, draw("path", { d: "M0 0L6 3L0 6z" }));
  figure.replaceChildren(
    draw("svg", { viewBox: "-8 -4 116 108", role: "img", "aria-label": "Who acts on whom; the table has the same actors" }, draw("defs", {}, arrow), ...lines, ...points),
    make("figcaption", { class: "soft" }, "Who acts on whom. actors.gexf and actors.graphml beside this page have all of it."));
}

function draw(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
