// Stories: events that are the same, with all their reports.

const storyLink = (story) => make("a", { href: addressWith({ view: "stories", story, sort: "" }) }, stories.name.at(story));
const storyTime = (story) => stories.time_start.at(story) || stories.first_date.at(story);

function showStories(section, state, chosen) {
  const own = section.querySelector(".own");
  own.replaceChildren();
  section.querySelector(".all").hidden = state.story !== null;
  if (state.story !== null) {
    own.append(...storyParts(state.story, chosen));
    return;
  }
  const found = new Map();
  for (const event of chosen) {
    const story = events.story.values[event];
    if (story < 0) continue;
    if (found.has(story)) found.get(story).push(event);
    else found.set(story, [event]);
  }
  const reports = new Map([...found].map(([story, each]) => [story, documentsOf(each)]));
  // Stories of several reports come first, those of "elections" or "things", which are less specific, later.
  const specificity = (each) => each.reduce((sum, event) => sum + events.specificity.at(event), 0) / each.length;
  const weights = new Map([...found].map(([story, each]) => [story, (reports.get(story) - 1) * specificity(each)]));
  const rows = [...found.keys()].sort((one, other) => weights.get(other) - weights.get(one) || one - other);
  showTable(section.querySelector(".all"), state, [
    { name: "Story", value: (story) => stories.name.at(story), cell: storyLink },
    { name: "When", value: storyTime, cell: (story) => shownDate(storyTime(story)), isMinor: true, isDate: true },
    { name: "Where", value: (story) => stories.place_text.at(story), isMinor: true },
    { name: "Actors", value: (story) => stories.actors.at(story).join(", "), isMinor: true },
    { name: "First report", isMinor: true, value: (story) => reportsOf(found.get(story))[0][0], cell: (story) => {
      const [number] = reportsOf(found.get(story))[0].slice(1);
      return make("a", { href: addressWith({ document: number, event: null }) }, factsOf(number));
    } },
    { name: "Sources", isNumber: true, isMinor: true, value: (story) => new Set(reportsOf(found.get(story)).map(([, number]) => documents.source.at(number))).size },
    { name: "Reports", isNumber: true, value: (story) => reports.get(story) },
  ], rows);
}

// The documents of some events, the first ones first, each after its date, with its events.
function reportsOf(chosen) {
  const found = new Map();
  for (const event of chosen) {
    const number = events.document.values[event];
    if (found.has(number)) found.get(number).push(event);
    else found.set(number, [event]);
  }
  // A document without a date comes last.
  return [...found].map(([number, each]) => [documents.date.at(number) || "~", number, each])
    .sort(([one, first], [other, second]) => (one < other ? -1 : one > other ? 1 : first - second));
}

function storyParts(story, chosen) {
  const about = [shownDate(storyTime(story)), stories.place_text.at(story), stories.actors.at(story).join(", ")];
  const sections = reportsOf(chosen).map(([, number, each]) => make("section", {},
    make("h3", {}, [shownDate(documents.date.at(number)), documents.source.at(number), documents.title.at(number)].filter(Boolean).join(" · ")),
    eventList(each.sort((one, other) => one - other))));
  return [
    make("a", { href: addressWith({ story: null }), class: "back" }, "All stories"),
    make("h2", {}, stories.name.at(story)),
    make("p", { class: "soft" }, about.filter(Boolean).join(" · ")),
    editBox("stories", story),
    ...sections,
  ];
}
