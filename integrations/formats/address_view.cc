#include "integrations/formats/report_page.h"
#include "integrations/formats/view_section.h"

namespace tidemark::formats {

namespace {

constexpr ViewButton kAddressButtons[] = {{"+", "+", "zoom in time"},
                                          {"-", "&minus;", "zoom out of time"},
                                          {"PageUp", "+ address", "zoom in address"},
                                          {"PageDown", "&minus; address", "zoom out of address"},
                                          {"0", "all", ""}};

}  // namespace

std::string address_section() {
  return view_html(
      {.name = "address",
       .title = "Address over time",
       .help =
           R"html(Every residency of a rank's device memory as a rectangle: planned address over simulated time. What
lasts the step is at its address from its beginning to its end. Reserves of the framework are not in these addresses. Click the
picture, then zoom in time with the wheel or + and &minus;, in address with Shift and the wheel or Page Up and Page Down; move by
dragging or with the arrow keys; 0 shows all.)html",
       .choices =
           R"html(<label>rank <select id="address-rank" aria-label="rank whose addresses are shown"></select></label>
)html",
       .buttons = kAddressButtons,
       .canvas = "addresses",
       .label = "planned addresses over simulated time"});
}

const std::string_view kAddressScript = R"js(
(() => {
'use strict';
const P = tidemarkPicture, {data} = P;
const canvas = document.getElementById('addresses'), range = document.getElementById('address-range');
const ranks = data.ranks.filter(rank => rank.lanes && rank.addresses);
if (!ranks.length) {
  range.textContent = 'no addresses in this plan';
  return;
}
const left = 72, right = 8, top = 16, lower = 22, height = 520;
let width = 0, rank = null, shown = null, view = null;
const area = () => ({left, top, width, height: height - top - lower});
const arenaOf = address => rank.addresses.arenas.reduce((found, arena) => address >= arena.base ? arena : found);
const roleOf = i => rank.lanes.storages[shown.what[i]][1];

function choose(next) {
  rank = next;
  shown = P.rectanglesOf(rank, data.step_ns);
  const high = rank.addresses.arenas.reduce((most, arena) => Math.max(most, arena.base + arena.height), 1);
  view.time = new P.Zoom(0, data.step_ns, Math.min(1000, data.step_ns));
  view.address = new P.Zoom(0, high * 1.02, Math.min(1024, high));
}

function drawAddressAxis(pen) {
  const {address} = view, step = roundBytes(address.span / 8);
  pen.textAlign = 'right';
  pen.textBaseline = 'middle';
  for (let bytes = Math.ceil(address.from / step) * step; bytes <= address.to; bytes += step) {
    const y = Math.round(yOf(bytes)) + 0.5;
    pen.strokeStyle = P.colour('--line');
    pen.beginPath();
    pen.moveTo(left, y);
    pen.lineTo(left + width, y);
    pen.stroke();
    pen.fillStyle = P.colour('--soft');
    pen.fillText(bytes ? P.gibText(bytes) : '0', left - 8, y);
  }
}
// A power of two of bytes near `bytes`, not below.
const roundBytes = bytes => 2 ** Math.max(0, Math.ceil(Math.log2(bytes)));
const xOf = ns => left + (ns - view.time.from) / view.time.span * width;
const yOf = bytes => top + (view.address.to - bytes) / view.address.span * (height - top - lower);

// Black or white, whichever is read on a colour #rrggbb.
function inkOn(css) {
  const value = parseInt(css.slice(1), 16);
  return 0.3 * (value >> 16 & 255) + 0.59 * (value >> 8 & 255) + 0.11 * (value & 255) > 140 ? '#111' : '#fff';
}

// Rectangles below a pixel each way are drawn once a pixel.
function drawRectangles(pen) {
  const colours = data.roles.map((_, role) => P.colour('--c' + role)), inks = colours.map(inkOn), card = P.colour('--card');
  const columns = Math.ceil(width) + 1, taken = new Uint8Array(columns * height);
  for (let i = 0; i < shown.at.length; ++i) {
    if (shown.to[i] < view.time.from || shown.from[i] > view.time.to) continue;
    if (shown.at[i] + shown.bytes[i] < view.address.from || shown.at[i] > view.address.to) continue;
    const x0 = Math.max(left, xOf(shown.from[i])), x1 = Math.min(left + width, xOf(shown.to[i]));
    const y0 = Math.max(top, yOf(shown.at[i] + shown.bytes[i])), y1 = Math.min(height - lower, yOf(shown.at[i]));
    if (x1 - x0 < 1 && y1 - y0 < 1) {
      const pixel = Math.floor(x0 - left) + Math.floor(y0) * columns;
      if (taken[pixel]) continue;
      taken[pixel] = 1;
    }
    const wide = Math.max(1, x1 - x0), tall = Math.max(1, y1 - y0), role = roleOf(i);
    pen.fillStyle = colours[role];
    pen.fillRect(x0, y0, wide, tall);
    if (wide > 5 && tall > 4) {
      pen.strokeStyle = card;
      pen.lineWidth = 0.75;
      pen.strokeRect(x0, y0, wide, tall);
    }
    if (wide > 60 && tall > 13) drawName(pen, rank.lanes.storages[shown.what[i]][0], inks[role], x0, y0, wide, tall);
  }
}

function drawName(pen, name, ink, x, y, wide, tall) {
  pen.save();
  pen.beginPath();
  pen.rect(x, y, wide - 3, tall);
  pen.clip();
  pen.fillStyle = ink;
  pen.textAlign = 'left';
  pen.textBaseline = 'middle';
  pen.fillText(name, x + 5, y + tall / 2 + 0.5);
  pen.restore();
}

function drawPeak(pen) {
  const x = Math.round(xOf(shown.peakNs)) + 0.5;
  if (x < left || x > left + width) return;
  pen.strokeStyle = P.colour('--ink');
  pen.setLineDash([2, 3]);
  pen.lineWidth = 1.25;
  pen.beginPath();
  pen.moveTo(x, top);
  pen.lineTo(x, height - lower);
  pen.stroke();
  pen.setLineDash([]);
  const text = `peak: ${P.gibText(shown.peakBytes)} held at ${P.timeText(shown.peakNs)}`;
  pen.fillStyle = P.colour('--ink');
  pen.textBaseline = 'alphabetic';
  pen.textAlign = x > left + width - 200 ? 'right' : x < left + 200 ? 'left' : 'center';
  pen.fillText(text, x, top - 4);
}

function draw() {
  const made = P.surface(canvas, height), {pen} = made;
  width = made.width - left - right;
  P.drawTimeAxis(pen, view.time, left, width, top, height - lower);
  drawAddressAxis(pen);
  drawRectangles(pen);
  drawPeak(pen);
  canvas.setAttribute('aria-label', `planned addresses of rank ${rank.rank} over simulated time: ${shown.at.length} residencies, ` +
    `at most ${P.gibText(shown.peakBytes)} held at ${P.timeText(shown.peakNs)}`);
  range.textContent = `${shown.at.length} residencies; ${P.timeText(view.time.from)} to ${P.timeText(view.time.to)}, ` +
    `${P.gibText(view.address.from)} to ${P.gibText(view.address.to)}`;
}

// The residency drawn at a pixel: the smallest that covers it.
function residencyAt(x, y) {
  const slackNs = view.time.span / width, slackBytes = view.address.span / (height - top - lower);
  const ns = view.time.from + (x - left) / width * view.time.span;
  const bytes = view.address.to - (y - top) / (height - top - lower) * view.address.span;
  let found = -1;
  for (let i = 0; i < shown.at.length; ++i) {
    if (ns < shown.from[i] || ns >= Math.max(shown.to[i], shown.from[i] + slackNs)) continue;
    if (bytes < shown.at[i] || bytes >= Math.max(shown.at[i] + shown.bytes[i], shown.at[i] + slackBytes)) continue;
    if (found < 0 || shown.bytes[i] < shown.bytes[found]) found = i;
  }
  return found;
}

function lines(i) {
  const arena = arenaOf(shown.at[i]), address = shown.at[i] - arena.base, sites = P.lanesOf(rank);
  const [name, role] = rank.lanes.storages[shown.what[i]];
  const isLasting = shown.from[i] <= 0 && shown.to[i] >= data.step_ns;
  return [name, `${P.gibText(shown.bytes[i])} (${shown.bytes[i]} bytes) · ${data.roles[role]}`, P.placeText(sites, shown.site[i]),
    `address 0x${address.toString(16)} to 0x${(address + shown.bytes[i]).toString(16)}` +
      (rank.addresses.arenas.length > 1 ? ` of arena ${rank.addresses.arenas.indexOf(arena)}` : ''),
    isLasting ? 'the whole step' : `${P.timeText(shown.from[i])} to ${P.timeText(shown.to[i])}, simulated`];
}

const tip = P.makeTip(canvas.parentNode);
function point(x, y) {
  const i = x < left || x > left + width ? -1 : residencyAt(x, y);
  if (i < 0) tip.hide(); else tip.show(x, y, lines(i));
}

P.behindThePage(() => {
  const redraw = P.onceAFrame(draw), list = document.getElementById('address-rank');
  view = {canvas, tools: document.getElementById('address-tools'), time: null, address: null, area, redraw, point,
    leave: tip.hide};
  for (const one of ranks) {
    const option = document.createElement('option');
    option.value = option.textContent = one.rank;
    list.appendChild(option);
  }
  const fullest = ranks.reduce((a, b) => b.peak - b.budget > a.peak - a.budget ? b : a);
  choose(fullest);
  list.value = fullest.rank;
  list.addEventListener('change', () => { choose(ranks.find(one => one.rank == list.value)); redraw(); });
  P.legend(document.getElementById('address-legend'), data.roles.map((name, role) => [name, `var(--c${role})`])
    .filter((_, role) => ranks.some(one => one.lanes.storages.some(storage => storage[1] === role))));
  P.control(view);
  P.redrawWhenChanged(canvas, redraw);
  draw();
});
})();
)js";

}  // namespace tidemark::formats
