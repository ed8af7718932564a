// node report_page_check.js PAGE
// Runs every script of a report against stand-ins for the browser's objects, uses both views as a reader would, and
// prints what their readers make of the columns as JSON. Exit 1 with the reason where a script throws.
'use strict';
const fs = require('fs');
const vm = require('vm');

const page = fs.readFileSync(process.argv[2], 'utf8');
const data = page.match(/<script type="application\/json" id="data">([\s\S]*?)<\/script>/)[1];
const scripts = [...page.matchAll(/<script>([\s\S]*?)<\/script>/g)].map(found => found[1]);
const check = (holds, what) => { if (!holds) throw new Error(what); };

let painted = 0;
const pen = new Proxy({}, {
  get: (kept, name) => name in kept ? kept[name] : name === 'measureText' ? () => ({width: 10}) : () => { ++painted; },
  set: (kept, name, value) => { kept[name] = value; return true; },
});

class Element {
  constructor(tag) {
    Object.assign(this, {tag, children: [], style: {}, dataset: {}, attributes: {}, listeners: {}, text: '', hidden: false,
      clientWidth: 1000, clientHeight: 600, offsetWidth: 340, offsetHeight: 120});
  }
  set textContent(text) { this.text = String(text); this.children = []; }
  get textContent() { return this.text + this.children.map(child => child.textContent ?? child).join(''); }
  appendChild(child) { child.parentNode = this; this.children.push(child); return child; }
  append(text) { this.children.push(text); }
  remove() {}
  setAttribute(name, value) { this.attributes[name] = String(value); }
  getBoundingClientRect() { return {left: 0, top: 0, width: 1000, height: 600}; }
  getContext() { return pen; }
  querySelectorAll(selector) { return selector === 'button' ? this.buttons ?? [] : []; }
  addEventListener(type, listen) { (this.listeners[type] ??= []).push(listen); }
  fire(type, event) {
    let prevented = false;
    for (const listen of this.listeners[type] ?? [])
      listen({clientX: event?.offsetX, preventDefault() { prevented = true; }, ...event});
    flushFrames();
    return prevented;
  }
}

const elements = new Map();
for (const [, tag, id] of page.matchAll(/<([a-z]+)[^>]*? id="([a-z-]+)"/g)) elements.set(id, new Element(tag));
elements.get('data').textContent = data;
for (const tools of ['pipeline-tools', 'address-tools']) {
  const markup = page.slice(page.indexOf(`id="${tools}"`), page.indexOf('</div>', page.indexOf(`id="${tools}"`)));
  elements.get(tools).buttons = [...markup.matchAll(/data-key="([^"]+)"/g)].map(found => {
    const button = new Element('button');
    button.dataset.key = found[1];
    return button;
  });
}
for (const canvas of ['pipeline', 'addresses']) new Element('div').appendChild(elements.get(canvas));

const frames = [];
function flushFrames() { while (frames.length) frames.shift()(); }
const document = {
  documentElement: new Element('html'), activeElement: null,
  getElementById: id => elements.get(id) ?? null,
  createElement: tag => new Element(tag),
  createElementNS: (_, tag) => new Element(tag),
  querySelectorAll: () => [],
};
const window = {devicePixelRatio: 2, addEventListener() {}, matchMedia: () => ({addEventListener() {}})};
const context = vm.createContext({document, window, requestAnimationFrame: draw => frames.push(draw),
  setTimeout: run => frames.push(run), console,
  getComputedStyle: () => ({getPropertyValue: () => '#336699'})});

// What every gesture does to the range that a view says it shows.
function use(id, rangeId, hasAddresses) {
  const canvas = elements.get(id), range = elements.get(rangeId), whole = range.textContent;
  const key = name => { canvas.fire('keydown', {key: name}); return range.textContent; };
  check(whole.length > 0, id + ' says no range');
  check(!canvas.fire('wheel', {deltaY: -100, offsetX: 500, offsetY: 200}), id + ': the wheel is the page\'s without the focus');
  document.activeElement = canvas;
  check(canvas.fire('wheel', {deltaY: -100, offsetX: 500, offsetY: 200}), id + ': the wheel zooms with the focus');
  check(range.textContent !== whole, id + ': the wheel changes the range');
  check(key('0') === whole, id + ': 0 shows all');
  const near = key('+');
  check(near !== whole, id + ': + zooms');
  check(key('ArrowRight') !== near, id + ': an arrow moves');
  check(key('ArrowLeft') === near, id + ': and back');
  check(key('-') === whole, id + ': - zooms out');
  check(key('ArrowLeft') === whole && key('-') === whole, id + ': no further than the step');
  if (hasAddresses) check(key('PageUp') !== whole && key('ArrowUp').length && key('0') === whole, id + ': zooms in address');
  key('+');
  canvas.fire('pointerdown', {offsetX: 500, offsetY: 200, pointerId: 1});
  const before = range.textContent;
  canvas.fire('pointermove', {offsetX: 400, offsetY: 180});
  check(range.textContent !== before, id + ': dragging moves');
  canvas.fire('pointerup', {});
  canvas.fire('dblclick', {offsetX: 500, offsetY: 200});
  key('0');
  for (const button of elements.get(id === 'pipeline' ? 'pipeline-tools' : 'address-tools').buttons) button.fire('click');
  key('0');
  const seen = new Set(), tip = canvas.parentNode.children.find(child => child.className === 'tip');
  for (let x = 0; x < 1000; x += 7) {
    for (let y = 0; y < 560; y += 5) {
      canvas.fire('pointermove', {offsetX: x, offsetY: y});
      if (!tip.hidden) tip.children.forEach(line => seen.add(line.textContent));
    }
  }
  canvas.fire('pointerleave', {});
  check(tip.hidden, id + ': the box goes with the pointer');
  return [...seen];
}

// What the picture of memory over the step says while a pointer crosses it.
function crossMemory() {
  const chart = elements.get('chart'), svg = chart.children.find(child => child.tag === 'svg');
  const tip = chart.children.find(child => child.className === 'tip'), seen = new Set();
  const add = element => element.children.length && element.children.every(child => child.children) ?
    (element.tag === 'tr' ? seen.add(element.textContent) : element.children.forEach(add)) : seen.add(element.textContent);
  for (let x = 0; svg && x < 1000; x += 3) {
    svg.fire('pointermove', {offsetX: x});
    if (!tip.hidden) tip.children.forEach(add);
  }
  return [...seen];
}

try {
  scripts.forEach((script, i) => vm.runInContext(script, context, {filename: `script-${i}`}));
  flushFrames();
  const picture = vm.runInContext('tidemarkPicture', context);
  const parsed = JSON.parse(data);
  const drawn = parsed.ranks.some(rank => rank.lanes), placed = parsed.ranks.some(rank => rank.lanes && rank.addresses);
  const tips = {
    pipeline: drawn ? use('pipeline', 'pipeline-range', false) : [],
    memory: crossMemory(),
    addresses: placed ? use('addresses', 'address-range', true) : [],
  };
  const plain = columns => columns && Object.fromEntries(Object.entries(columns).map(([name, column]) =>
    [name, typeof column === 'number' ? column : Array.from(column)]));
  const ranks = parsed.ranks.map(rank => ({
    lanes: picture.lanesOf(rank)?.lanes.map(lane => lane ? plain(lane) : null) ?? null,
    batch: rank.lanes ? Array.from(picture.lanesOf(rank).batch) : null,
    rectangles: plain(picture.rectanglesOf(rank, parsed.step_ns)),
  }));
  process.stdout.write(JSON.stringify({ranks, tips, painted, legend: elements.get('pipeline-legend').textContent}));
} catch (error) {
  process.stderr.write(error.stack + '\n');
  process.exit(1);
}
