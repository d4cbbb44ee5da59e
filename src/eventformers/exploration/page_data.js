"use strict";

// Reads the blocks that page_data.py packs. A block is unpacked once, when it is first needed.

const ARRAYS = { int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array, int32: Int32Array };
const unpackedBlocks = new Map();

// The bytes of a column are stored by their place in a number: all first bytes, then all second ones.
function numbersOf(bytes, base, { type, at, length }) {
  const values = new ARRAYS[type](length);
  const size = values.BYTES_PER_ELEMENT;
  const target = new Uint8Array(values.buffer);
  for (let place = 0; place < size; place++) {
    const from = base + at + place * length;
    for (let row = 0; row < length; row++) target[row * size + place] = bytes[from + row];
  }
  return values;
}

class Column {
  constructor(bytes, base, described) {
    this.values = numbersOf(bytes, base, described);
    this.texts = described.texts ?? null;
    this.steps = described.steps ?? 1;
    this.starts = described.starts ? numbersOf(bytes, base, described.starts) : null;
  }

  at(row) {
    if (this.starts === null) return this.value(row);
    const list = [];
    for (let place = this.starts[row]; place < this.starts[row + 1]; place++) list.push(this.value(place));
    return list;
  }

  value(place) {
    const stored = this.values[place];
    return this.texts === null ? stored / this.steps : this.texts[stored];
  }
}

function tableOf(bytes) {
  const length = new DataView(bytes.buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  const table = { rows: header.rows };
  for (const [name, described] of Object.entries(header.columns)) {
    table[name] = new Column(bytes, 4 + length, described);
  }
  return table;
}

function hasBlock(name) {
  return document.getElementById(`block-${name}`) !== null;
}

async function bytesOf(name) {
  const text = document.getElementById(`block-${name}`).textContent;
  const compressed = Uint8Array.fromBase64
    ? Uint8Array.fromBase64(text)
    : Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([compressed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function unpacked(name, read) {
  if (!unpackedBlocks.has(name)) unpackedBlocks.set(name, bytesOf(name).then(read));
  return unpackedBlocks.get(name);
}

function loadTable(name) {
  return hasBlock(name) ? unpacked(name, tableOf) : Promise.resolve(null);
}

function loadText(name) {
  return unpacked(name, (bytes) => new TextDecoder().decode(bytes));
}

// The rows of a sorted column that have a value, as [first, end).
function rowsWith(column, wanted) {
  const first = lowerBound(column.values, wanted);
  return [first, lowerBound(column.values, wanted + 1)];
}

function lowerBound(values, wanted) {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The text of a document. Offsets count characters, as in Python, not the halves of an emoji.
const TEXTS_TOGETHER = Number(document.body.dataset.textsTogether);
const NEIGHBOURS_TOGETHER = Number(document.body.dataset.neighboursTogether);

async function documentText(number) {
  const name = `texts-${Math.floor(number / TEXTS_TOGETHER)}`;
  const texts = await unpacked(name, (bytes) => JSON.parse(new TextDecoder().decode(bytes)));
  const text = texts[number % TEXTS_TOGETHER];
  const characters = /[\ud800-\udfff]/.test(text) ? Array.from(text) : null;
  return {
    length: characters?.length ?? text.length,
    slice: (start, end) => (characters ? characters.slice(start, end).join("") : text.slice(start, end)),
  };
}
