// The map: plotly draws the points; the names of regions lie above it, as many as have room.

const plot = document.getElementById("plot");
const labels = document.getElementById("labels");
const tip = document.getElementById("tip");
const MAP_SIDE = 65535;
const MARGIN = 0.08;
// Height of the buttons above the map, in pixels.
const TOOLS = 36;
// A few points far away would make all others small.
const FAR = 0.01;
const CONFIG = { displayModeBar: false, scrollZoom: true, responsive: true, doubleClick: false };
// More points take a processor seconds; without WebGL the browser draws each point as an element.
const MOST_POINTS = 200000;
const MOST_ELEMENTS = 4000;
const map = { points: null, regions: null, chosen: null, hasWebGl: false };

let started = null;

function startMapOnce() {
  started ??= startMap();
}

async function startMap() {
  const [points, regions, source] = await Promise.all([loadTable("map"), loadTable("regions"), loadText("plotly")]);
  map.points = points;
  map.regions = regions;
  map.hasWebGl = document.createElement("canvas").getContext("webgl") !== null;
  document.head.append(make("script", {}, source));
  const layout = {
    margin: { l: 0, r: 0, t: 0, b: 0 }, showlegend: false, dragmode: "pan", hovermode: "closest",
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    xaxis: { visible: false, range: [0, 1] }, yaxis: { visible: false, range: [0, 1] },
  };
  await Plotly.newPlot(plot, [], layout, CONFIG);
  plot.on("plotly_relayouting", placeLabels);
  plot.on("plotly_relayout", placeLabels);
  plot.on("plotly_hover", showTip);
  plot.on("plotly_unhover", () => { tip.hidden = true; });
  plot.on("plotly_click", ({ points: [point] }) => {
    const event = point.data.meta?.[point.pointNumber];
    if (event !== undefined) location.hash = eventAddress(event);
  });
  startMapTools();
  await zoomTo(null);
  await drawMap(map.chosen);
  document.body.dataset.mapped = "";
}

function startMapTools() {
  const chooser = document.getElementById("region");
  if (map.regions !== null) {
    for (let region = 0; region < map.regions.rows; region++) {
      chooser.append(make("option", { value: region }, map.regions.name.at(region)));
    }
  }
  chooser.closest("label").hidden = map.regions === null;
  chooser.addEventListener("change", () => zoomTo(chooser.value === "" ? null : Number(chooser.value)));
  document.getElementById("zoom-in").addEventListener("click", () => move(0.6));
  document.getElementById("zoom-out").addEventListener("click", () => move(1 / 0.6));
  document.getElementById("zoom-all").addEventListener("click", () => {
    chooser.value = "";
    zoomTo(null);
  });
  const keys = { ArrowLeft: [1, -0.2, 0], ArrowRight: [1, 0.2, 0], ArrowUp: [1, 0, 0.2], ArrowDown: [1, 0, -0.2], "+": [0.6], "-": [1 / 0.6] };
  plot.addEventListener("keydown", (event) => {
    if (!(event.key in keys)) return;
    event.preventDefault();
    move(...keys[event.key]);
  });
  new ResizeObserver(async () => {
    if (plot.clientWidth === 0) return;
    await Plotly.Plots.resize(plot);
    zoomTo(chooser.value === "" ? null : Number(chooser.value));
  }).observe(plot);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawMap(map.chosen));
}

function ranges() {
  return [plot.layout.xaxis.range, plot.layout.yaxis.range];
}

function setRanges(x, y) {
  return Plotly.relayout(plot, { "xaxis.range": x, "yaxis.range": y }).then(placeLabels);
}

// Multiply the extent by a factor, and move by a part of it.
function move(factor, right = 0, up = 0) {
  const changed = ranges().map(([low, high], axis) => {
    const extent = high - low;
    const middle = (low + high) / 2 + extent * (axis === 0 ? right : up);
    return [middle - (extent * factor) / 2, middle + (extent * factor) / 2];
  });
  return setRanges(...changed);
}

// Show a region, or all points but the farthest, without distortion.
function zoomTo(region) {
  const low = [];
  const high = [];
  if (region === null) {
    for (const [axis, column] of [map.points.x, map.points.y].entries()) {
      const sorted = Float32Array.from(column.values).sort();
      low[axis] = sorted[Math.floor(sorted.length * FAR)];
      high[axis] = sorted[Math.ceil(sorted.length * (1 - FAR)) - 1];
    }
  } else {
    for (const [axis, value] of [map.regions.x.at(region), map.regions.y.at(region)].entries()) {
      low[axis] = value - MAP_SIDE / 12;
      high[axis] = value + MAP_SIDE / 12;
    }
  }
  const perPixel = Math.max((high[0] - low[0] || 1) / plot.clientWidth, (high[1] - low[1] || 1) / plot.clientHeight);
  const sides = [plot.clientWidth, plot.clientHeight].map((pixels) => (pixels * perPixel * (1 + 2 * MARGIN)) / 2);
  return setRanges(...[0, 1].map((axis) => {
    const middle = (low[axis] + high[axis]) / 2;
    return [middle - sides[axis], middle + sides[axis]];
  }));
}

function placeLabels() {
  if (map.regions === null) return;
  const [x, y] = ranges();
  const taken = [];
  labels.replaceChildren();
  for (let region = 0; region < map.regions.rows; region++) {
    const name = map.regions.name.at(region);
    const left = ((map.regions.x.at(region) - x[0]) / (x[1] - x[0])) * plot.clientWidth;
    const top = (1 - (map.regions.y.at(region) - y[0]) / (y[1] - y[0])) * plot.clientHeight;
    const half = Math.min(name.length * 3.6, 90) + 6;
    const box = [left - half, top - 20, left + half, top + 20];
    if (box[0] < 0 || box[1] < TOOLS || box[2] > plot.clientWidth || box[3] > plot.clientHeight) continue;
    if (taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3])) continue;
    taken.push(box);
    labels.append(make("span", { "--left": `${left}px`, "--top": `${top}px` }, name));
  }
}

function showTip({ points: [point], event: pointer }) {
  const event = point.data.meta?.[point.pointNumber];
  if (event === undefined) return;
  tip.replaceChildren(make("strong", {}, eventText(event)), typeTag(event) ?? "", make("small", {}, factsOf(events.document.at(event))));
  tip.hidden = false;
  const box = plot.getBoundingClientRect();
  const left = Math.min(pointer.clientX - box.left + 14, box.width - tip.offsetWidth - 4);
  const top = pointer.clientY - box.top + 16;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${top + tip.offsetHeight > box.height ? top - tip.offsetHeight - 28 : top}px`;
}

// Plotly reads no oklch colours; a canvas turns them into rgb.
function plotlyColour(colour) {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  canvas.fillStyle = colour;
  canvas.fillRect(0, 0, 1, 1);
  return `rgb(${[...canvas.getImageData(0, 0, 1, 1).data.subarray(0, 3)].join(",")})`;
}

// The rows of the map by colour: "other" for events that are not chosen, "" for grey ones, otherwise the hue.
function rowsByColour(chosen) {
  const isChosen = new Uint8Array(events.rows);
  for (const event of chosen) isChosen[event] = 1;
  const hues = types === null ? [] : Array.from({ length: types.rows }, (_, type) => colourOf(type)["--hue"] ?? "");
  const rows = new Map([["other", []], ["", []]]);
  map.points.event.values.forEach((event, row) => {
    const colour = isChosen[event] ? hues[eventTypes?.[event]] ?? "" : "other";
    if (!rows.has(colour)) rows.set(colour, []);
    rows.get(colour).push(row);
  });
  return rows;
}

function traceOf(rows, step, marker, isFront) {
  const drawn = step > 1 ? rows.filter((_, number) => number % step === 0) : rows;
  const pick = (values) => Float32Array.from(drawn, (row) => values[row]);
  return {
    type: map.hasWebGl ? "scattergl" : "scatter", mode: "markers", hoverinfo: isFront ? "none" : "skip",
    x: pick(map.points.x.values), y: pick(map.points.y.values),
    meta: Int32Array.from(drawn, (row) => map.points.event.values[row]),
    marker: { line: { width: 0 }, ...marker },
  };
}

// Draw the chosen events in their colours above all others in grey.
function drawMap(chosen) {
  map.chosen = chosen;
  if (map.points === null || !plot.layout || chosen === null) return null;
  const style = getComputedStyle(document.documentElement);
  const grey = plotlyColour(style.getPropertyValue("--untyped"));
  const room = Math.sqrt((plot.clientWidth * plot.clientHeight) / map.points.rows);
  const size = Math.max(2, Math.min(6, 0.8 * room));
  const found = rowsByColour(chosen);
  const most = map.hasWebGl ? MOST_POINTS : MOST_ELEMENTS;
  const others = found.get("other").length;
  const steps = [others, map.points.rows - others].map((count) => Math.max(1, Math.ceil(count / most)));
  const traces = [...found].map(([colour, rows]) => {
    if (colour === "other") return traceOf(rows, steps[0], { color: grey, opacity: 0.18, size: size * 0.8 }, false);
    const shown = colour === "" ? grey : plotlyColour(`oklch(${style.getPropertyValue("--point")} ${colour})`);
    return traceOf(rows, steps[1], { color: shown, opacity: 0.75, size }, true);
  });
  const note = document.getElementById("map-note");
  note.hidden = steps[1] === 1;
  note.textContent = `The map shows one of ${steps[1]} events.`;
  return Plotly.react(plot, traces, plot.layout, CONFIG).then(placeLabels);
}
