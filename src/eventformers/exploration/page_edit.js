// Edits of types, actors and stories. A download keeps them, with the earlier ones, for the next run.

const MOST_SUGGESTED = 500;
const edits = { types: [], actors: [], stories: [] };
// What edits made of some rows: a new name, or "" for what is merged or dropped.
const edited = { types: new Map(), actors: new Map(), stories: new Map() };
const editedTables = () => ({ types: [types, "name"], actors: [actors, "actor_id"], stories: [stories, "story_id"] });
const nameNow = (kind, row) => edited[kind].get(row) ?? editedTables()[kind][0].name.at(row);

// Edits call a type by its present name, an actor and a story by its id.
function reference(kind, row) {
  const [table, column] = editedTables()[kind];
  return kind === "types" ? nameNow(kind, row) : table[column].at(row);
}

function rowsLeft(kind, without) {
  const [table] = editedTables()[kind];
  return Array.from({ length: table.rows }, (_, row) => row).filter((row) => row !== without && edited[kind].get(row) !== "");
}

// The rows that are left, by their names; those of one name have their ids, too.
function namesLeft(kind, without) {
  const rows = rowsLeft(kind, without);
  const counts = new Map();
  for (const each of rows) counts.set(nameNow(kind, each), (counts.get(nameNow(kind, each)) ?? 0) + 1);
  return new Map(rows.map((each) => {
    const name = nameNow(kind, each);
    return [counts.get(name) > 1 ? `${name} (${reference(kind, each)})` : name, each];
  }));
}

// A closed box with fields to rename, merge or drop a row of a table.
function editBox(kind, row) {
  const said = make("p", { class: "soft", role: "status" });
  const fields = make("div", { class: "tools" });
  const box = make("details", { class: "edit" }, make("summary", {}, "Edit"), fields, said);
  const keep = (edit, text, changes) => {
    edits[kind].push(edit);
    for (const [each, name] of changes) edited[kind].set(each, name);
    said.textContent = `${text} in the next run.`;
    fields.hidden = edited[kind].get(row) === "";
    showEdits();
  };
  const name = make("input", { value: nameNow(kind, row), "aria-label": "Name" });
  const other = make("input", { list: `names-${kind}`, "aria-label": "Other" });
  const button = (text, action) => {
    const made = make("button", { type: "button" }, text);
    made.addEventListener("click", action);
    return made;
  };
  fields.append(
    make("span", { class: "field" }, "Name", name),
    button("Rename", () => {
      const to = name.value.trim();
      const isTaken = kind === "types" && rowsLeft(kind, row).some((each) => nameNow(kind, each) === to);
      if (isTaken) said.textContent = "Another type has this name; merge them.";
      else if (to !== "") keep({ rename: reference(kind, row), to }, `Renamed to ${to}`, [[row, to]]);
    }),
    make("span", { class: "field" }, "Other", other),
    button("Merge into this", () => {
      const merged = namesLeft(kind, row).get(other.value.trim());
      if (merged === undefined) said.textContent = "There is no other one of this name, or there are several: choose from the list.";
      else keep({ merge: [reference(kind, row), reference(kind, merged)] }, `Merged with ${other.value.trim()}`, [[merged, ""]]);
    }),
    button("Drop", () => keep({ drop: reference(kind, row) }, "Dropped", [[row, ""]])));
  box.addEventListener("toggle", () => suggestNames(kind, row));
  return box;
}

function suggestNames(kind, row) {
  const list = document.getElementById(`names-${kind}`) ?? make("datalist", { id: `names-${kind}` });
  list.replaceChildren(...[...namesLeft(kind, row).keys()].slice(0, MOST_SUGGESTED).map((name) => make("option", { value: name })));
  document.body.append(list);
}

function startTypeEdits() {
  for (const card of document.querySelectorAll("[data-type]")) card.append(editBox("types", Number(card.dataset.type)));
}

function showEdits() {
  const count = Object.values(edits).flat().length;
  const bar = document.getElementById("edits");
  bar.hidden = false;
  bar.querySelector("span").textContent = `${counted(count, "edit")} for the next run: explore … --curation curation.yaml`;
}

// JSON is YAML, too, if line ends and controls beyond ASCII are escaped; a line for each edit can be read and
// changed by hand.
const yamlText = (edit) => JSON.stringify(edit).replace(/[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g,
  (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);

async function curationText() {
  const earlier = hasBlock("curation") ? JSON.parse(await loadText("curation")) : {};
  return Object.entries(edits).map(([kind, added]) => {
    const lines = [...(earlier[kind] ?? []), ...added].map((edit) => `- ${yamlText(edit)}\n`);
    return `${kind}:${lines.length ? "\n" : " []\n"}${lines.join("")}`;
  }).join("");
}

async function downloadEdits() {
  download("curation.yaml", await curationText(), "application/yaml");
}
