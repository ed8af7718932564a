#include "integrations/formats/report_page.h"

namespace tidemark::formats {

const std::string_view kPictureStyle = R"css(
:root{--k0:#3f74b5;--k1:#4f9d69;--k2:#a9cf94;--k3:#dd7733;--k4:#8b5fb0;--k5:#8b919b;--k6:#2396a6;--k7:#c2559d}
@media(prefers-color-scheme:dark){:root{--k0:#5b8fd0;--k1:#5fb27c;--k2:#a3c98e;--k3:#e88c4d;--k4:#a981cc;--k5:#7d8590;--k6:#35b3c4;--k7:#d873b6}}
.chart canvas{display:block;width:100%;touch-action:pan-y;cursor:crosshair}
.chart canvas:focus-visible{outline:2px solid var(--swap);outline-offset:4px;border-radius:4px}
.tools{display:flex;flex-wrap:wrap;gap:8px;align-items:center;margin:12px 0 0;font-size:13px;color:var(--soft)}
.tools button,.tools select{font:inherit;color:var(--ink);background:var(--card);border:1px solid var(--line);border-radius:7px;padding:3px 10px;cursor:pointer}
.tools button:focus-visible,.tools select:focus-visible{outline:2px solid var(--swap)}
.tools output{font-variant-numeric:tabular-nums;margin-left:auto}
)css";

const std::string_view kPictureScript = R"js(
const tidemarkPicture = (() => {
'use strict';
// What report_data.h describes, parsed once: the views share its ranks, and what is read of them.
const data = JSON.parse(document.getElementById('data').textContent);
const codes = new Int8Array(128).fill(-1);
[...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'].forEach((c, i) => { codes[c.charCodeAt(0)] = i; });

// The values of a packed column (integrations/formats/packed_column.h).
function unpack(text, isDelta) {
  let at = 0;
  const number = () => {
    let value = 0, weight = 1, digit;
    do {
      digit = codes[text.charCodeAt(at++)];
      if (!(digit >= 0)) throw new Error('a packed column is damaged at letter ' + (at - 1));
      value += (digit & 31) * weight;
      weight *= 32;
    } while (digit > 31);
    return value % 2 ? -(value + 1) / 2 : value / 2;
  };
  const scale = number(), words = [];
  while (at < text.length) {
    if (text[at] !== '*') { words.push(number()); continue; }
    ++at;
    const distance = number();
    for (let left = number(); left > 0; --left) words.push(words[words.length - distance]);
  }
  let sum = 0;
  return Float64Array.from(words, word => (sum = isDelta ? sum + word : word) * scale);
}

// A rank's lanes with start and end of every task in ns, and its sites; null where it has none. Read once.
const read = new Map();
function lanesOf(rank) {
  if (!rank.lanes) return null;
  if (read.has(rank)) return read.get(rank);
  const lanes = [];
  for (const one of rank.lanes.lanes) {
    const gap = unpack(one.gap), ns = unpack(one.ns), start = new Float64Array(ns.length), end = new Float64Array(ns.length);
    for (let i = 0, now = 0; i < ns.length; ++i) { start[i] = now + gap[i]; now = end[i] = start[i] + ns[i]; }
    lanes[one.lane] = {start, end, what: unpack(one.what), site: unpack(one.site, true), again: unpack(one.again)};
  }
  const sites = rank.lanes.sites;
  const made = {lanes, chunk: unpack(sites.chunk, true), layer: unpack(sites.layer, true), batch: unpack(sites.batch, true)};
  read.set(rank, made);
  return made;
}

// ns of a position of the compute clock; what lasts is held one position beyond the last: until the step ends.
function timeOf(rank, clock, stepNs) {
  const compute = lanesOf(rank).lanes[0], count = compute ? compute.end.length : 0;
  if (clock <= 0) return 0;
  if (clock >= 2 * count) return clock > 2 * count ? stepNs : rank.lanes.finish;
  return clock % 2 ? compute.end[(clock - 1) / 2] : compute.start[clock / 2];
}

// A rank's residencies as rectangles of time (ns) and address (bytes).
function rectanglesOf(rank, stepNs) {
  const a = rank.addresses;
  if (!a || !rank.lanes) return null;
  const first = unpack(a.from, true), span = unpack(a.span);
  return {
    from: first.map(clock => timeOf(rank, clock, stepNs)),
    to: first.map((clock, i) => timeOf(rank, clock + span[i], stepNs)),
    bytes: unpack(a.bytes), at: unpack(a.at, true), what: unpack(a.what), site: unpack(a.site, true),
    peakNs: timeOf(rank, a.peak.clock, stepNs), peakBytes: a.peak.bytes,
  };
}

// The part of [low, high] that is shown, at least `least` long.
class Zoom {
  constructor(low, high, least) {
    this.low = low;
    this.high = Math.max(high, low + least);
    this.least = least;
    this.reset();
  }
  get span() { return this.to - this.from; }
  reset() { this.from = this.low; this.to = this.high; }
  show(from, span) {
    const length = Math.min(Math.max(span, this.least), this.high - this.low);
    this.from = Math.min(Math.max(from, this.low), this.high - length);
    this.to = this.from + length;
  }
  // factor < 1 shows less; `at` stands still.
  scale(factor, at) {
    const length = Math.min(Math.max(this.span * factor, this.least), this.high - this.low);
    this.show(at - (at - this.from) / this.span * length, length);
  }
  pan(by) { this.show(this.from + by, this.span); }
}

// The first task that ends after `ns`.
function firstAfter(end, ns) {
  let low = 0, high = end.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (end[mid] > ns) high = mid; else low = mid + 1;
  }
  return low;
}

// Calls paint(x0, x1, kind, share) for what is visible of a lane. Tasks below a pixel are merged into columns one pixel
// wide of the kind that takes most of it, with the share of the column that is busy.
function strips(lane, zoom, width, kindOf, paint) {
  const scale = width / zoom.span, shares = new Float64Array(8);
  let column = -1;
  const flush = () => {
    if (column < 0) return;
    let most = 0, sum = 0;
    for (let k = 0; k < shares.length; ++k) {
      sum += shares[k];
      if (shares[k] > shares[most]) most = k;
    }
    if (sum > 0) paint(column, column + 1, most, Math.min(1, sum));
    shares.fill(0);
    column = -1;
  };
  for (let i = firstAfter(lane.end, zoom.from); i < lane.end.length && lane.start[i] < zoom.to; ++i) {
    const x0 = (lane.start[i] - zoom.from) * scale, x1 = (lane.end[i] - zoom.from) * scale;
    if (x1 - x0 >= 1) {
      flush();
      paint(Math.max(x0, 0), Math.min(x1, width), kindOf(i), 1);
      continue;
    }
    const at = Math.floor((x0 + x1) / 2);
    if (at !== column) { flush(); column = at; }
    shares[kindOf(i)] += x1 - x0;
  }
  flush();
}

const timeText = ns => ns >= 1e9 ? (ns / 1e9).toFixed(4) + ' s' : ns >= 1e6 ? (ns / 1e6).toFixed(3) + ' ms' : (ns / 1e3).toFixed(2) + ' µs';
const gibText = bytes => bytes >= 2 ** 30 ? (bytes / 2 ** 30).toFixed(2) + ' GiB'
  : bytes >= 2 ** 20 ? (bytes / 2 ** 20).toFixed(2) + ' MiB' : (bytes / 1024).toFixed(2) + ' KiB';
function placeText(sites, site) {
  if (!(site >= 0)) return '';
  const part = (name, value) => value >= 0 ? name + ' ' + value : '';
  return [part('micro-batch', sites.batch[site]), part('chunk', sites.chunk[site]), part('layer', sites.layer[site])]
    .filter(Boolean).join(', ');
}
// A round distance of marks: about `count` over `span`.
function roundStep(span, count) {
  const power = Math.pow(10, Math.floor(Math.log10(span / count)));
  return [1, 2, 5, 10].map(k => k * power).find(step => span / step <= count) || power * 10;
}

// From here on: the page.

function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim() || '#888'; }

// Sets a canvas to its width on the page at the screen's resolution; everything is drawn in CSS pixels.
function surface(canvas, height) {
  const width = Math.max(320, canvas.clientWidth), ratio = window.devicePixelRatio || 1;
  canvas.style.height = height + 'px';
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext('2d');
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = '11.5px system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif';
  return {pen, width, height};
}

function drawTimeAxis(pen, zoom, left, width, top, bottom) {
  const step = roundStep(zoom.span, Math.max(2, width / 110));
  pen.strokeStyle = colour('--line');
  pen.fillStyle = colour('--soft');
  pen.lineWidth = 1;
  pen.textAlign = 'center';
  pen.textBaseline = 'alphabetic';
  const unit = zoom.to >= 3e9 ? [1e9, ' s'] : zoom.to >= 3e6 ? [1e6, ' ms'] : [1e3, ' µs'];
  for (let ns = Math.ceil(zoom.from / step) * step; ns <= zoom.to; ns += step) {
    const x = Math.round(left + (ns - zoom.from) / zoom.span * width) + 0.5;
    pen.beginPath();
    pen.moveTo(x, top);
    pen.lineTo(x, bottom);
    pen.stroke();
    const digits = Math.max(0, Math.ceil(-Math.log10(step / unit[0]) - 1e-9));
    if (x > left + 14 && x < left + width - 14) pen.fillText((ns / unit[0]).toFixed(Math.min(digits, 6)) + unit[1], x, bottom + 15);
  }
}

// One drawing a frame, however often it is asked for.
function onceAFrame(draw) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; draw(); });
  };
}

// Behind the rest of the page. Not when first seen: print and screenshots show what was never scrolled to.
function behindThePage(run) { setTimeout(run, 0); }

function redrawWhenChanged(canvas, redraw) {
  if (typeof ResizeObserver !== 'undefined') new ResizeObserver(redraw).observe(canvas.parentNode);
  else window.addEventListener('resize', redraw);
  window.matchMedia('(prefers-color-scheme:dark)').addEventListener('change', redraw);
}

// Wheel, drag, keys and buttons of a view. view: {canvas, tools, time: Zoom, address: Zoom or null, area() -> {left, top,
// width, height} of the picture in the canvas, redraw(), point(x, y) when the pointer moves, leave()}.
function control(view) {
  const {canvas} = view;
  const timeAt = x => view.time.from + (x - view.area().left) / view.area().width * view.time.span;
  const addressAt = y => view.address.to - (y - view.area().top) / view.area().height * view.address.span;
  const centre = zoom => (zoom.from + zoom.to) / 2;
  const changed = () => { view.leave(); view.redraw(); };
  const scale = (zoom, factor, at) => { if (zoom) { zoom.scale(factor, at); changed(); } };
  const pan = (zoom, share) => { if (zoom) { zoom.pan(share * zoom.span); changed(); } };
  const reset = () => { view.time.reset(); if (view.address) view.address.reset(); changed(); };

  // A page is scrolled by the wheel, too: a picture takes it once it has the focus, or with Ctrl.
  canvas.addEventListener('wheel', event => {
    if (document.activeElement !== canvas && !event.ctrlKey) return;
    event.preventDefault();
    const by = event.deltaY || event.deltaX, factor = Math.exp(Math.max(-120, Math.min(120, by)) * 0.0025);
    if (event.shiftKey && view.address) scale(view.address, factor, addressAt(event.offsetY));
    else scale(view.time, factor, timeAt(event.offsetX));
  }, {passive: false});

  let held = null;
  canvas.addEventListener('pointerdown', event => {
    held = {x: event.offsetX, y: event.offsetY};
    if (canvas.setPointerCapture) canvas.setPointerCapture(event.pointerId);
  });
  const release = () => { held = null; };
  canvas.addEventListener('pointerup', release);
  canvas.addEventListener('pointercancel', release);
  canvas.addEventListener('pointermove', event => {
    if (!held) { view.point(event.offsetX, event.offsetY); return; }
    view.time.pan((held.x - event.offsetX) / view.area().width * view.time.span);
    if (view.address) view.address.pan((event.offsetY - held.y) / view.area().height * view.address.span);
    held = {x: event.offsetX, y: event.offsetY};
    changed();
  });
  canvas.addEventListener('pointerleave', view.leave);
  canvas.addEventListener('dblclick', event => scale(view.time, 0.4, timeAt(event.offsetX)));

  const acts = {
    '+': () => scale(view.time, 0.6, centre(view.time)), '=': () => acts['+'](),
    '-': () => scale(view.time, 1 / 0.6, centre(view.time)), '0': reset,
    ArrowLeft: () => pan(view.time, -0.15), ArrowRight: () => pan(view.time, 0.15),
    ArrowUp: () => pan(view.address, 0.15), ArrowDown: () => pan(view.address, -0.15),
    PageUp: () => scale(view.address, 0.6, view.address && centre(view.address)),
    PageDown: () => scale(view.address, 1 / 0.6, view.address && centre(view.address)),
  };
  canvas.addEventListener('keydown', event => {
    if (event.ctrlKey || event.metaKey || event.altKey || !acts[event.key]) return;
    if (!view.address && /^(ArrowUp|ArrowDown|Page)/.test(event.key)) return;
    event.preventDefault();
    acts[event.key]();
  });
  view.tools.querySelectorAll('button').forEach(button => {
    button.addEventListener('click', () => acts[button.dataset.key]());
  });
}

// A box beside the pointer: lines of text, the first in bold.
function makeTip(host) {
  const tip = document.createElement('div');
  tip.className = 'tip';
  tip.hidden = true;
  host.appendChild(tip);
  return {
    hide() { tip.hidden = true; },
    show(x, y, lines) {
      tip.textContent = '';
      lines.filter(Boolean).forEach((line, i) => {
        const made = document.createElement(i ? 'div' : 'b');
        made.textContent = line;
        tip.appendChild(made);
      });
      tip.hidden = false;
      const right = x > host.clientWidth / 2;
      tip.style.left = (right ? x - tip.offsetWidth - 18 : x + 30) + 'px';
      tip.style.top = Math.max(8, Math.min(y + 18, host.clientHeight - tip.offsetHeight - 8)) + 'px';
    },
  };
}

function legend(host, entries) {
  for (const [name, css] of entries) {
    const item = document.createElement('span'), mark = document.createElement('i');
    mark.style.background = css;
    item.appendChild(mark);
    item.append(name);
    host.appendChild(item);
  }
}

return {data, unpack, lanesOf, timeOf, rectanglesOf, Zoom, firstAfter, strips, timeText, gibText, placeText, roundStep, colour,
  surface, drawTimeAxis, onceAFrame, behindThePage, redrawWhenChanged, control, makeTip, legend};
})();
)js";

}  // namespace tidemark::formats
