#include "integrations/formats/report_page.h"

namespace tidemark::formats {

const std::string_view kReportStyle = R"css(
:root{--bg:#fbfaf8;--card:#fff;--ink:#1c2026;--soft:#5f6772;--line:#e3e1dc;--good:#1f7a4d;--good-bg:#e5f3ea;--bad:#b3261e;
--bad-bg:#fbe9e7;--reserve:#a3a7ad;--c0:#3f6491;--c1:#7398c0;--c2:#aec6df;--c3:#dd7733;--c4:#eec04f;--c5:#58a06c;
--keep:#e6e4df;--recompute:#dd7733;--swap:#3f7fb5;--budget:#b3261e}
@media(prefers-color-scheme:dark){:root{--bg:#14171b;--card:#1b1f25;--ink:#e7e9ec;--soft:#9aa3ad;--line:#2d333b;--good:#6cce99;
--good-bg:#17301f;--bad:#ff8a80;--bad-bg:#3a1a17;--reserve:#6b7178;--c0:#4d78ad;--c1:#6f93bb;--c2:#93aecb;--c3:#e08a4c;
--c4:#e3bb55;--c5:#62b07a;--keep:#2a2f36;--recompute:#e08a4c;--swap:#4f93cc;--budget:#ff8a80}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
main{max-width:1400px;margin:0 auto;padding:32px 28px 64px}
h1{font-size:26px;line-height:1.2;margin:0 0 6px;letter-spacing:-.01em}
h2{font-size:18px;margin:44px 0 4px;letter-spacing:-.005em}
p{margin:6px 0 12px;max-width:100ch}
.soft{color:var(--soft)}.next{margin-top:20px}
.verdict{display:flex;gap:12px;align-items:baseline;padding:12px 16px;border-radius:10px;margin:18px 0 0;font-size:16px}
.verdict b{white-space:nowrap;letter-spacing:.03em}
.verdict.good{background:var(--good-bg);color:var(--good)}
.verdict.bad{background:var(--bad-bg);color:var(--bad)}
.problems{margin:10px 0 0;padding-left:20px}
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(168px,1fr));gap:10px;margin:14px 0 0}
.figure{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:11px 14px}
.figure span{display:block;color:var(--soft);font-size:12.5px}
.figure b{display:block;font-size:20px;font-weight:600;font-variant-numeric:tabular-nums;line-height:1.35}
.figure i{display:block;font-style:normal;color:var(--soft);font-size:12.5px}
.scroll{overflow-x:auto;border:1px solid var(--line);border-radius:10px;background:var(--card);margin:12px 0 0}
table{border-collapse:collapse;width:100%;font-size:13px;font-variant-numeric:tabular-nums}
th,td{padding:6px 8px;text-align:right;white-space:nowrap;border-bottom:1px solid var(--line)}
tr:last-child td{border-bottom:0}
th{font-weight:600;color:var(--soft);font-size:12px;vertical-align:bottom;line-height:1.25}
th small{display:block;font-weight:400}
td.l,th.l{text-align:left}
td.wrap{white-space:normal;min-width:260px}
td.total{font-weight:600}
.no{color:var(--bad);font-weight:600}.yes{color:var(--good)}
svg{display:block}
svg text{fill:var(--soft);font-size:11.5px;font-family:inherit}
.bar{width:170px;height:16px}.bar .budget{stroke-dasharray:none;stroke-width:2}
.f0{fill:var(--c0)}.f1{fill:var(--c1)}.f2{fill:var(--c2)}.f3{fill:var(--c3)}.f4{fill:var(--c4)}.f5{fill:var(--c5)}.fr{fill:var(--reserve)}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;margin:10px 0 0;font-size:13px;color:var(--soft)}
.legend span{display:inline-flex;align-items:center;gap:6px}
.legend i{width:12px;height:12px;border-radius:3px;display:inline-block}
.chart{position:relative;border:1px solid var(--line);border-radius:10px;background:var(--card);padding:14px 14px 8px;margin:12px 0 0}
.chart svg{width:100%;height:auto;overflow:visible}
.grid{stroke:var(--line);stroke-width:1}
.budget{stroke:var(--budget);stroke-width:1.5;stroke-dasharray:6 4}
.peak{stroke:var(--ink);stroke-width:1;stroke-dasharray:1.5 3}
.cursor{stroke:var(--ink);stroke-width:1;opacity:.6}
svg text.over{fill:var(--budget)}
.tip{position:absolute;pointer-events:none;background:var(--card);border:1px solid var(--line);border-radius:8px;padding:10px 12px;
font-size:12.5px;line-height:1.4;box-shadow:0 6px 24px rgba(0,0,0,.16);width:340px;z-index:2}
.tip table{font-size:12px;margin-top:6px}.tip td{padding:1px 4px;border:0}.tip td.l{white-space:normal;overflow-wrap:anywhere}
.tip h3{font-size:12px;margin:8px 0 0;color:var(--soft);font-weight:600}
.tip i{width:9px;height:9px;border-radius:2px;display:inline-block;margin-right:6px}
.ranks{display:grid;grid-template-columns:repeat(auto-fill,minmax(142px,1fr));gap:8px;margin:10px 0 0}
.ranks button{all:unset;cursor:pointer;background:var(--card);border:1px solid var(--line);border-radius:8px;padding:7px 9px 8px;font-size:12px}
.ranks button:focus-visible{outline:2px solid var(--swap)}
.ranks button[aria-pressed=true]{border-color:var(--ink);box-shadow:inset 0 0 0 1px var(--ink)}
.ranks b{font-weight:600}.ranks em{font-style:normal;color:var(--soft);float:right;font-variant-numeric:tabular-nums}
.ranks svg{width:100%;height:46px;margin-top:4px}
.map table{font-size:12px;width:auto}
.map td,.map th{padding:0;border:0}
.map th.name{text-align:left;padding:0 12px 0 12px;font-weight:400;color:var(--ink);position:sticky;left:0;background:var(--card)}
.map th.rank{font-size:11px;text-align:center;border-left:6px solid transparent;padding-top:8px}
.map th.layer{font-weight:400;font-size:10.5px;writing-mode:vertical-rl;transform:rotate(180deg);padding:3px 0;text-align:left;width:15px}
.map td.c{width:15px;min-width:15px;height:17px;border:1px solid var(--card);background:var(--keep)}
.map td.none{background:none}
.map td.first,.map th.first{border-left:6px solid transparent;background-clip:padding-box}
.map tr:last-child td{padding-bottom:0}
.map td.sum,.map th.sum{padding:0 0 0 14px}
.map td.r{background-color:var(--recompute)}.map td.s{background-color:var(--swap)}
footer{margin-top:48px;border-top:1px solid var(--line);padding-top:14px;color:var(--soft);font-size:13px}
@media print{.ranks,.tip{display:none}main{padding:0}}
)css";

const std::string_view kReportScript = R"js(
(() => {
'use strict';
const {data, unpack} = tidemarkPicture;
const SVG = 'http://www.w3.org/2000/svg';
const fills = ['fr', 'f0', 'f1', 'f2', 'f3', 'f4', 'f5'];
const names = ['reserves'].concat(data.roles);
const gib = mib => (mib / 1024).toFixed(2) + ' GiB';
const node = (parent, tag, attributes, text) => {
  const made = document.createElementNS(SVG, tag);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  parent.appendChild(made);
  return made;
};
const html = (parent, tag, text, className) => {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  parent.appendChild(made);
  return made;
};
const value = (rank, layer, i) => {
  if (layer === 0) return rank.reserve;
  const series = rank.b[layer - 1];
  return series.length === 1 ? series[0] : series[i];
};
const total = (rank, i) => fills.reduce((sum, _, layer) => sum + value(rank, layer, i), 0);
const top = data.ranks.reduce((most, r) => Math.max(most, r.budget, r.peak), 1) * 1.06;

// Stacked areas; a sample holds until the next one, so edges are square.
function drawAreas(svg, rank, x, y) {
  const base = rank.t.map(() => 0), end = x(data.step_ms);
  for (let layer = 0; layer < fills.length; ++layer) {
    const low = base.slice();
    let path = '', back = 'H' + end.toFixed(1);
    for (let i = 0; i < rank.t.length; ++i) base[i] += value(rank, layer, i);
    if (base.every((height, i) => height === low[i])) continue;
    for (let i = 0; i < base.length; ++i) {
      const at = x(rank.t[i]).toFixed(1);
      path += (i ? 'H' + at + 'V' : 'M' + at + ',') + y(base[i]).toFixed(1);
    }
    path += 'H' + end.toFixed(1) + 'V' + y(low[low.length - 1]).toFixed(1);
    for (let i = low.length - 1; i > 0; --i) path += 'H' + x(rank.t[i]).toFixed(1) + 'V' + y(low[i - 1]).toFixed(1);
    node(svg, 'path', {d: path + 'H' + x(rank.t[0]).toFixed(1) + 'Z', class: fills[layer]});
  }
}

const W = 1180, H = 380, left = 62, right = 14, upper = 18, lower = 30;
const X = ms => left + ms / data.step_ms * (W - left - right);
const Y = mib => H - lower - mib / top * (H - lower - upper);
const round = span => {
  const power = Math.pow(10, Math.floor(Math.log10(span)));
  return [1, 2, 5, 10].map(k => k * power).find(step => span / step <= 1) || span;
};

function drawAxes(svg, rank) {
  const step = round(top / 1024 / 7);
  for (let g = 0; g * 1024 <= top; g += step) {
    node(svg, 'line', {x1: left, x2: W - right, y1: Y(g * 1024), y2: Y(g * 1024), class: 'grid'});
    node(svg, 'text', {x: left - 8, y: Y(g * 1024) + 4, 'text-anchor': 'end'}, +g.toFixed(3) + ' GiB');
  }
  const ms = round(data.step_ms / 9);
  for (let t = 0; t <= data.step_ms; t += ms) {
    const label = data.step_ms >= 3000 ? +(t / 1000).toFixed(3) + ' s' : +t.toFixed(4) + ' ms';
    node(svg, 'text', {x: X(t), y: H - 8, 'text-anchor': t ? 'middle' : 'start'}, label);
  }
}

function drawLines(svg, rank) {
  const line = (mib, className, text, anchor, at) => {
    node(svg, 'line', {x1: left, x2: W - right, y1: Y(mib), y2: Y(mib), class: className});
    node(svg, 'text', {x: at, y: Y(mib) - 5, 'text-anchor': anchor, class: className === 'budget' ? 'over' : ''}, text);
  };
  line(rank.budget, 'budget', 'budget ' + gib(rank.budget), 'end', W - right);
  line(rank.peak, 'peak', 'planned peak with reserves and gaps of the layout ' + gib(rank.peak), 'start', left + 6);
}

const chart = document.getElementById('chart');
let shown = null, cursor = null, moments = null, shares = null;
const tip = html(chart, 'div', '', 'tip');
tip.hidden = true;

const unpacked = columns => columns &&
  Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, unpack(column)]));

// The largest holders at each moment: row of the rank's holders, count in flight, MiB.
function sharesOf(rank) {
  const {named, holder, count, mib} = unpacked(rank.h);
  let at = 0;
  return Array.from(named, many => Array.from({length: many}, () => [holder[at], count[at], mib[at++]]));
}

function show(rank) {
  shown = rank;
  moments = unpacked(rank.m);
  shares = sharesOf(rank);
  chart.querySelectorAll('svg').forEach(old => old.remove());
  const svg = node(chart, 'svg', {viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': 'memory of rank ' + rank.rank});
  drawAxes(svg, rank);
  drawAreas(svg, rank, X, Y);
  drawLines(svg, rank);
  cursor = node(svg, 'line', {y1: upper, y2: H - lower, class: 'cursor', visibility: 'hidden'});
  svg.addEventListener('pointermove', event => hover(svg, event));
  svg.addEventListener('pointerleave', () => { tip.hidden = true; cursor.setAttribute('visibility', 'hidden'); });
  document.getElementById('shown').textContent = 'Rank ' + rank.rank;
  document.querySelectorAll('.ranks button').forEach(b => b.setAttribute('aria-pressed', b.dataset.rank == rank.rank));
}

const place = (chunk, layer, batch) => [layer >= 0 ? 'layer ' + layer : '', 'chunk ' + chunk,
  batch >= 0 ? 'micro-batch ' + batch : ''].filter(Boolean).join(', ');

function hover(svg, event) {
  const box = svg.getBoundingClientRect();
  const px = (event.clientX - box.left) / box.width * W;
  const ms = Math.max(0, Math.min(data.step_ms, (px - left) / (W - left - right) * data.step_ms));
  let i = 0;
  for (let low = 0, high = shown.t.length - 1; low <= high;) {
    const mid = (low + high) >> 1;
    if (shown.t[mid] <= ms) { i = mid; low = mid + 1; } else high = mid - 1;
  }
  fillTip(i);
  cursor.setAttribute('x1', px); cursor.setAttribute('x2', px); cursor.setAttribute('visibility', 'visible');
  tip.hidden = false;
  const host = chart.getBoundingClientRect(), at = event.clientX - host.left;
  tip.style.left = (at > host.width / 2 ? at - tip.offsetWidth - 18 : at + 18) + 'px';
  tip.style.top = '22px';
}

function fillTip(i) {
  tip.textContent = '';
  html(tip, 'b', gib(total(shown, i)) + ' at ' + (shown.t[i] / 1000).toFixed(3) + ' s');
  if (moments) {
    const {op, chunk, layer, batch, again} = moments, where = batch[i] >= 0 ? ' · ' + place(chunk[i], layer[i], batch[i]) : '';
    html(tip, 'div', (again[i] ? 'again: ' : '') + shown.ops[op[i]] + where, 'soft');
  }
  const table = html(tip, 'table');
  for (let layer = 0; layer < fills.length; ++layer) {
    if (!value(shown, layer, i)) continue;
    const line = html(table, 'tr'), name = html(line, 'td', undefined, 'l');
    html(name, 'i').style.background = layer ? `var(--c${layer - 1})` : 'var(--reserve)';
    name.append(names[layer]);
    html(line, 'td', gib(value(shown, layer, i)));
  }
  if (!shares[i].length) return;
  html(tip, 'h3', 'Largest holders, count in flight');
  const holders = html(tip, 'table');
  for (const [holder, count, mib] of shares[i]) {
    const line = html(holders, 'tr'), [name, chunk, layer] = shown.holders[holder];
    html(line, 'td', name + (layer >= 0 ? ', layer ' + layer : ''), 'l');
    html(line, 'td', '× ' + count);
    html(line, 'td', gib(mib));
  }
}

const list = document.getElementById('ranks');
for (const rank of data.ranks) {
  const button = html(list, 'button');
  button.type = 'button';
  button.dataset.rank = rank.rank;
  html(button, 'b', 'rank ' + rank.rank);
  html(button, 'em', gib(rank.peak), rank.fits ? '' : 'no');
  const svg = node(button, 'svg', {viewBox: '0 0 150 46', preserveAspectRatio: 'none', 'aria-hidden': 'true'});
  drawAreas(svg, rank, ms => ms / data.step_ms * 150, mib => 46 - mib / top * 44);
  const line = 46 - rank.budget / top * 44;
  node(svg, 'line', {x1: 0, x2: 150, y1: line, y2: line, class: 'budget'});
  button.addEventListener('click', () => show(rank));
}
const legend = document.getElementById('legend');
names.forEach((name, layer) => {
  if (!data.ranks.some(rank => rank.t.some((_, i) => value(rank, layer, i)))) return;
  const item = html(legend, 'span');
  html(item, 'i').style.background = layer ? `var(--c${layer - 1})` : 'var(--reserve)';
  item.append(name);
});
if (data.ranks.length) {
  show(data.ranks.reduce((a, b) => b.peak - b.budget > a.peak - a.budget ? b : a));
}
})();
)js";

}  // namespace tidemark::formats
