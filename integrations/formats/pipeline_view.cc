#include "integrations/formats/report_page.h"
#include "integrations/formats/view_section.h"

namespace tidemark::formats {

namespace {

constexpr ViewButton kPipelineButtons[] = {{"+", "+", "zoom in"},
                                           {"-", "&minus;", "zoom out"},
                                           {"ArrowLeft", "&larr;", "earlier"},
                                           {"ArrowRight", "&rarr;", "later"},
                                           {"0", "whole step", ""}};

}  // namespace

std::string pipeline_section() {
  return view_html(
      {.name = "pipeline",
       .title = "What each rank does when",
       .help = R"html(Simulated, not measured. A row a rank; in it, from above: compute, communication (inside the
node, between nodes, sends), copies to the host (D2H), copies from it (H2D). Click the picture, then zoom with the wheel or + and
&minus;, move by dragging or with the arrow keys, 0 shows all; with Ctrl the wheel zooms without a click.)html",
       .choices = "",
       .buttons = kPipelineButtons,
       .canvas = "pipeline",
       .label = "simulated timeline of every pipeline rank"});
}

const std::string_view kPipelineScript = R"js(
(() => {
'use strict';
const P = tidemarkPicture, {data} = P;
const canvas = document.getElementById('pipeline'), range = document.getElementById('pipeline-range');
const ranks = data.ranks.filter(rank => rank.lanes);
if (!ranks.length) {
  range.textContent = 'no timeline in this plan';
  return;
}
const kinds = ['forward', 'backward', 'backward, weights', 'recompute', 'optimizer and gradient reduction', 'communication',
  'copy to the host (D2H)', 'copy from the host (H2D)'];
const kindOfPhase = [0, 1, 2, 5, 5, 4, 4];  // forward, backward, weight gradient, receive, send, reduction, optimizer
const laneNames = ['compute', 'communication inside the node', 'communication between nodes', 'send', 'receive', 'D2H', 'H2D'];
const kindOf = (rank, lane, task) => number => {
  if (lane >= 5) return lane + 1;
  if (task.again[number]) return 3;
  return lane ? 5 : kindOfPhase[rank.lanes.phases[task.what[number]]];
};
// Bands of a row: lanes, top and height in pixels. Communication lanes run beside each other, so each has a third.
const bands = [
  {lanes: [0], top: 0, height: 14}, {lanes: [1], top: 15, height: 3}, {lanes: [2], top: 18, height: 3},
  {lanes: [3, 4], top: 21, height: 3}, {lanes: [5], top: 25, height: 5}, {lanes: [6], top: 31, height: 5},
];
const size = ranks.length <= 4 ? 2 : 1, rowHeight = 43 * size, left = 62, right = 8, top = 4, lower = 22;
const height = top + ranks.length * rowHeight + lower;
const time = new P.Zoom(0, data.step_ns, Math.min(1000, data.step_ns));
let width = 0;
const area = () => ({left, top, width, height: ranks.length * rowHeight});

function drawRow(pen, rank, y, colours) {
  const {lanes} = P.lanesOf(rank);
  for (const band of bands) {
    for (const lane of band.lanes) {
      if (!lanes[lane]) continue;
      P.strips(lanes[lane], time, width, kindOf(rank, lane, lanes[lane]), (x0, x1, kind, share) => {
        pen.fillStyle = colours[kind];
        pen.globalAlpha = Math.max(0.25, share);
        const gap = x1 - x0 > 4 ? 0.6 : 0;  // neighbours are told apart once they are wide enough
        pen.fillRect(left + x0, y + band.top * size, x1 - x0 - gap, band.height * size);
      });
    }
  }
  pen.globalAlpha = 1;
}

function nameOf(rank, lane, what) {
  return lane >= 5 ? rank.lanes.storages[what][0] : rank.ops[what];
}

// What stands written in tasks that are wide enough.
function drawLabels(pen, rank, y) {
  const {lanes, batch, chunk} = P.lanesOf(rank), compute = lanes[0];
  if (!compute) return;
  pen.textAlign = 'left';
  pen.textBaseline = 'middle';
  pen.fillStyle = '#fff';
  const scale = width / time.span;
  for (let i = P.firstAfter(compute.end, time.from); i < compute.end.length && compute.start[i] < time.to; ++i) {
    const x0 = Math.max(0, (compute.start[i] - time.from) * scale), x1 = Math.min(width, (compute.end[i] - time.from) * scale);
    if (x1 - x0 < 46) continue;
    const site = compute.site[i], text = nameOf(rank, 0, compute.what[i]) + (batch[site] >= 0 ? ` · ${batch[site]}/${chunk[site]}` : '');
    pen.save();
    pen.beginPath();
    pen.rect(left + x0, y, x1 - x0 - 3, 14 * size);
    pen.clip();
    pen.fillText(text, left + x0 + 4, y + 7 * size + 0.5);
    pen.restore();
  }
}

function draw() {
  const made = P.surface(canvas, height), {pen} = made;
  width = made.width - left - right;
  P.drawTimeAxis(pen, time, left, width, top, height - lower);
  const colours = kinds.map((_, k) => P.colour('--k' + k)), ink = P.colour('--ink');
  ranks.forEach((rank, row) => {
    const y = top + row * rowHeight + 3;
    drawRow(pen, rank, y, colours);
    drawLabels(pen, rank, y);
    pen.fillStyle = ink;
    pen.textAlign = 'right';
    pen.textBaseline = 'middle';
    pen.fillText('rank ' + rank.rank, left - 10, y + 18 * size);
  });
  range.textContent = `${P.timeText(time.from)} to ${P.timeText(time.to)} of ${P.timeText(data.step_ns)}, simulated`;
}

function describe(rank, lane, at, pixel) {
  const sites = P.lanesOf(rank), task = sites.lanes[lane];
  if (!task) return [];
  const first = P.firstAfter(task.end, at - pixel / 2);
  let count = 0;
  while (first + count < task.end.length && task.start[first + count] < at + pixel / 2) ++count;
  if (!count) return [];
  const i = first, place = P.placeText(sites, task.site[i]);
  return [(task.again[i] ? 'again: ' : '') + nameOf(rank, lane, task.what[i]),
    [kinds[kindOf(rank, lane, task)(i)], place].filter(Boolean).join(' · '),
    `${laneNames[lane]}: at ${P.timeText(task.start[i])} for ${P.timeText(task.end[i] - task.start[i])}`,
    count > 1 ? `and ${count - 1} more within this pixel` : ''];
}

const tip = P.makeTip(canvas.parentNode);
function point(x, y) {
  const row = Math.floor((y - top) / rowHeight), rank = ranks[row];
  if (!rank || x < left || x > left + width) { tip.hide(); return; }
  const inRow = (y - top - row * rowHeight - 3) / size, isComm = inRow >= 14.5 && inRow < 24.5;
  const band = bands.find(one => inRow < one.top + one.height + 1) || bands[bands.length - 1];
  const lanes = isComm ? [1, 2, 3, 4] : band.lanes, at = time.from + (x - left) / width * time.span;
  const lines = lanes.flatMap(lane => describe(rank, lane, at, time.span / width));
  if (!lines.length) lines.push(isComm ? 'no communication' : laneNames[band.lanes[0]] + ' idle');
  tip.show(x, y, [`rank ${rank.rank} at ${P.timeText(at)}, simulated`, ...lines]);
}

P.behindThePage(() => {
  const redraw = P.onceAFrame(draw);
  P.legend(document.getElementById('pipeline-legend'), kinds.map((name, k) => [name, `var(--k${k})`])
    .filter((_, k) => ranks.some(rank => P.lanesOf(rank).lanes.some((task, lane) => {
      const kind = kindOf(rank, lane, task);
      return task.end.some((_, i) => kind(i) === k);
    }))));
  P.control({canvas, tools: document.getElementById('pipeline-tools'), time, address: null, area, redraw, point,
    leave: tip.hide});
  P.redrawWhenChanged(canvas, redraw);
  draw();
});
})();
)js";

}  // namespace tidemark::formats
