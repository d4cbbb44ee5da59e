// The map of places: an outline of the world, with circles by the number of events.

const world = { steps: 1, box: null, svg: null, circles: null };
const WORLD_MARGIN = 4;
const LEAST_WIDTH = 24;

async function showPlaces(section, state, chosen) {
  const found = counts(chosen, (event) => events.place.at(event));
  showTable(section.querySelector(".rows"), state, [
    { name: "Place", value: ([place]) => places.name.at(place), cell: ([place]) => placeLink(state, place) },
    { name: "Events", isNumber: true, value: ([, count]) => count },
  ], found);
  const figure = section.querySelector(".world");
  if (world.svg === null) await startWorld(figure);
  const highest = found[0]?.[1] ?? 1;
  world.circles.replaceChildren(...found.map(([place, count]) =>
    draw("a", { href: placeAddress(state, place), tabindex: "-1", "data-chosen": state.place === place },
      draw("circle", { cx: places.longitude.at(place), cy: -places.latitude.at(place), "data-share": Math.sqrt(count / highest) },
        draw("title", {}, `${places.name.at(place)}: ${counted(count, "event")}`)))));
  if (world.box === null) fitWorld(found);
  setWorld(world.box);
}

const placeAddress = (state, place) => addressWith({ place: state.place === place ? null : place });
const placeLink = (state, place) => make("a", { href: placeAddress(state, place), "aria-current": state.place === place ? "true" : null }, places.name.at(place));

async function startWorld(figure) {
  world.svg = draw("svg", { role: "img", "aria-label": "Map of places; the table has the same places", preserveAspectRatio: "xMidYMid slice" });
  figure.prepend(world.svg);
  const [path, steps] = JSON.parse(await loadText("world"));
  world.circles = draw("g", { class: "circles" });
  world.svg.append(draw("path", { d: path, class: "land", transform: `scale(${1 / Number(steps)})` }), world.circles);
  for (const button of figure.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => {
      if (button.dataset.zoom === "") fitWorld(counts(chosenEvents(stateOf(location.hash)), (event) => events.place.at(event)));
      else {
        const [x, y, width, height] = world.box;
        const factor = Number(button.dataset.zoom);
        setWorld([x + (width * (1 - factor)) / 2, y + (height * (1 - factor)) / 2, width * factor, height * factor]);
      }
    });
  }
  let dragged = null;
  world.svg.addEventListener("pointerdown", (event) => { dragged = [event.clientX, event.clientY, ...world.box]; });
  addEventListener("pointerup", () => { dragged = null; });
  world.svg.addEventListener("pointermove", (event) => {
    if (dragged === null) return;
    const [x, y, left, top, width, height] = dragged;
    const perPixel = width / world.svg.clientWidth;
    setWorld([left - (event.clientX - x) * perPixel, top - (event.clientY - y) * perPixel, width, height]);
  });
}

// Shows all places with a margin, in the shape of the figure.
function fitWorld(found) {
  const [x, y] = [places.longitude, places.latitude].map((column) => found.map(([place]) => column.at(place)));
  if (x.length === 0) return setWorld([-180, -84, 360, 144]);
  const low = [Math.min(...x) - WORLD_MARGIN, -Math.max(...y) - WORLD_MARGIN];
  const high = [Math.max(...x) + WORLD_MARGIN, -Math.min(...y) + WORLD_MARGIN];
  const shape = world.svg.clientHeight / world.svg.clientWidth || 0.5;
  const width = Math.min(360, Math.max(LEAST_WIDTH, high[0] - low[0], (high[1] - low[1]) / shape));
  setWorld([(low[0] + high[0] - width) / 2, (low[1] + high[1] - width * shape) / 2, width, width * shape]);
}

// Circles and lines keep their size on the screen.
function setWorld(box) {
  world.box = box;
  world.svg.setAttribute("viewBox", box.join(" "));
  const perPixel = box[2] / (world.svg.clientWidth || 600);
  for (const circle of world.circles.querySelectorAll("circle")) {
    circle.setAttribute("r", (3 + 19 * Number(circle.dataset.share)) * perPixel);
  }
}
