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
  section.querySelector(".all").hidden = state.actor !== null;
  if (state.actor !== null) return;
  const { agent, patient } = actorCounts(chosen);
  // The most frequent first: an array of numbers sorts far faster than one with a comparison.
  const keys = Float64Array.from(agent, (acts, actor) => (acts + patient[actor]) * actors.rows - actor).sort().reverse();
  const rows = Array.from(keys.filter((key) => key > 0), (key) => Math.ceil(key / actors.rows) * actors.rows - key);
  const partIn = new Map();
  for (const event of chosen) {
    for (const actor of new Set([events.agent.values[event], events.patient.values[event]])) {
      if (partIn.has(actor)) partIn.get(actor).push(event);
      else partIn.set(actor, [event]);
    }
  }
  const columns = [
    { name: "Actor", value: (actor) => actors.name.at(actor), cell: actorLink },
    { name: "Kind", value: (actor) => actors.kind.at(actor), isMinor: true },
    ...(timeLine.periods.length > 1 ? [{ name: "Over time", isMinor: true, cell: (actor) => smallBars(countsByPeriod(partIn.get(actor))) }] : []),
    { name: "Acts", isNumber: true, value: (actor) => agent[actor] },
    { name: "Is acted on", isNumber: true, value: (actor) => patient[actor] },
  ];
  showTable(section.querySelector(".all .rows"), state, columns, rows);
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
  const tables = [["Did", acts, "Who"], ["Was done to", isActedOn, "To whom"]].filter(([, each]) => each.length > 0).map(([title, each, same]) => {
    const box = make("div", { class: "rows" });
    distinctTable(box, state, each, [same, "Documents"]);
    return make("section", {}, make("h3", {}, `${title} (${NUMBERS.format(each.length)})`), box);
  });
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
    editBox("actors", actor),
    make("div", { class: "pair" }, make("div", {}, ...tables), make("div", { class: "lists" }, ...lists.filter(Boolean))),
  ];
}

const MOST_IN_NETWORK = 40;

// The actors that act most on each other lie on a circle, near those with whom they have most to do.
function showNetwork(figure, chosen) {
  const edges = new Map();
  for (const event of chosen) {
    const [from, to] = [events.agent.values[event], events.patient.values[event]];
    if (from < 0 || to < 0 || from === to) continue;
    const key = from * actors.rows + to;
    edges.set(key, (edges.get(key) ?? 0) + 1);
  }
  const all = [...edges].map(([key, count]) => [Math.floor(key / actors.rows), key % actors.rows, count]).sort((one, other) => other[2] - one[2]);
  const weights = new Map();
  for (const [from, to, count] of all) for (const actor of [from, to]) weights.set(actor, (weights.get(actor) ?? 0) + count);
  const busiest = new Set([...weights.keys()].sort((one, other) => weights.get(other) - weights.get(one)).slice(0, MOST_IN_NETWORK));
  const kept = all.filter(([from, to]) => busiest.has(from) && busiest.has(to));
  figure.hidden = kept.length === 0;
  const order = [];
  const visit = (actor) => {
    if (order.includes(actor)) return;
    order.push(actor);
    for (const [from, to] of kept) if (from === actor || to === actor) visit(from === actor ? to : from);
  };
  for (const [from] of kept) visit(from);
  const angle = (actor) => (2 * Math.PI * order.indexOf(actor)) / order.length;
  const point = (actor, radius) => [Math.cos(angle(actor)) * radius, Math.sin(angle(actor)) * radius].map((value) => value.toFixed(2));
  const lines = kept.map(([from, to, count]) => {
    const says = `${actors.name.at(from)} acts on ${actors.name.at(to)}: ${count}`;
    const bent = [0, 1].map((axis) => (0.3 * (Number(point(from, 100)[axis]) + Number(point(to, 100)[axis]))).toFixed(2));
    return draw("path", { d: `M${point(from, 97)}Q${bent} ${point(to, 95)}`, "stroke-width": 0.5 + Math.sqrt(count) * 0.6, "marker-end": "url(#arrow)" }, draw("title", {}, says));
  });
  const points = order.map((actor) => {
    const name = actors.name.at(actor);
    const isLeft = Math.cos(angle(actor)) < 0;
    const degrees = (angle(actor) * 180) / Math.PI + (isLeft ? 180 : 0);
    const [x, y] = point(actor, 104);
    return draw("a", { href: addressWith({ view: "actors", actor, sort: "" }), tabindex: "-1" },
      draw("circle", { cx: point(actor, 99)[0], cy: point(actor, 99)[1], r: 1 + Math.sqrt(weights.get(actor)) * 0.45 }),
      draw("text", { x, y, transform: `rotate(${degrees.toFixed(1)} ${x} ${y})`, "text-anchor": isLeft ? "end" : "start" }, name.length > 20 ? `${name.slice(0, 19)}…` : name));
  });
  const arrow = draw("marker", { id: "arrow", viewBox: "0 0 6 6", refX: 5, refY: 3, markerWidth: 4, markerHeight: 4, markerUnits: "userSpaceOnUse", orient: "auto" }, draw("path", { d: "M0 0L6 3L0 6z" }));
  figure.replaceChildren(
    draw("svg", { viewBox: "-180 -176 360 352", role: "img", "aria-label": "Who acts on whom; the table has the same actors" }, draw("defs", {}, arrow), ...lines, ...points),
    make("figcaption", { class: "soft" }, "Who acts on whom. The files actors.gexf and actors.graphml beside this page have all of it."));
}

function draw(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
