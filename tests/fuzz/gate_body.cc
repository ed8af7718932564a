// The gate's own files: what a team holds its jobs to, and what they held when it was last agreed to.

#include <string>
#include <vector>

#include "tests/fuzz/input_bodies.h"

namespace tidemark::testing {
namespace {

std::vector<std::string> budget_seeds() {
  return {
      R"(schema: tidemark-budget/1
capacity: 64GiB
reserve: 3.03GiB
near: 2%
growth: {percent: 2, bytes: 512MiB}
load: p99
jobs:
  - name: pangu
    model: a.yaml
    policy: optimal
    load: {trace: c.csv, quantile: p99.9}
    limits:
      - {ranks: first, phase: backward, at_most: 50GiB, near: 1GiB}
      - {ranks: "0-3,15", category: activations, at_most: 1B}
    waivers:
      - {owner: a@b.c, reason: r, expires: 2026-12-31, ranks: last, growth: true, at_most: 62GiB}
)",
      R"(schema: tidemark-budget/1
host: 64GiB
baseline: b.json
jobs:
- {name: a, script: a.sh, world_size: 8, accelerator: h100, capacity: 1GiB}
- {name: b, measured: runs, predicted_by: a, limits: [{host: true, at_most: 2GiB}]}
- {name: c, plan: p.json}
)"};
}

std::vector<std::string> budget_words() {
  return {"\n",         " ",       "- ",        ": ",        "{",
          "}",          "[",       "]",         "&a ",       "*a",
          "'",          "\"",      "#",         "!!int ",    "p100",
          "-1",         "1e9",     "0",         "2%",        "100%",
          "0-9",        "9-0",     "1B",        "1GiB",      "9223372036854775807",
          "2026-02-30", "limits:", "waivers:",  "at_most:",  "capacity",
          "ranks:",     "phase:",  "category:", "growth:",   "host: true",
          "near:",      "model:",  "plan:",     "measured:", "null",
          "~",          "\xff",    "\t",        "---\n"};
}

std::vector<std::string> baseline_seeds() {
  return {
      R"({
"schema":"tidemark-baseline/1",
"tool_version":"0.1.0",
"jobs":{
"pangu":{
"basis":"planned",
"inputs":[
{"role":"model","fnv1a64":"00ff000000000001"}],
"runs":[],
"ranks":[
{"rank":0,"peak_bytes":90,"host_bytes":null,"by_category":{"activations":100,"temporaries":-10},"storages":[
{"name":"layers.mlp.out","category":"activations","count":4,"bytes":100},
{"name":"term","category":"temporaries","count":1,"bytes":-10}]},
{"rank":7,"peak_bytes":5,"host_bytes":70,"by_category":{"parameters":5},"storages":[]}]}}
}
)",
      R"({"schema": "tidemark-baseline/1", "tool_version": "", "jobs": {"a": {"basis": "measured", "inputs": [], "runs":
[[{"rank": 0, "peak_bytes": 3}, {"rank": 2147483647, "peak_bytes": 4}], [{"rank": 0, "peak_bytes": 2}]], "ranks":
[{"rank": 0, "peak_bytes": 3, "host_bytes": null, "by_category": {"other": 3}, "storages": []}]},
"b": {"basis": "estimated", "inputs": [], "runs": [], "ranks":
[{"rank": 1, "peak_bytes": 0, "host_bytes": 0, "by_category": {}, "storages": []}]}}}
)"};
}

std::vector<std::string> baseline_words() {
  return {"{",
          "}",
          "[",
          "]",
          ",",
          ":",
          "\"",
          "\n",
          "null",
          "-1",
          "0",
          "3",
          "1e3",
          "1.5",
          "measured",
          "planned",
          "rank",
          "\"runs\"",
          "\xff",
          "\\u0000",
          "\\ud800",
          "reserve",
          "9223372036854775807",
          "2147483648",
          "1099511627777",
          "\"a\": {}, "};
}

}  // namespace

std::vector<FuzzTarget> gate_targets() {
  return {{.name = "budget",
           .seeds = budget_seeds,
           .words = budget_words,
           .places = {"limits", "waivers", "load"},
           .rounds = 5'000},
          {.name = "baseline",
           .seeds = baseline_seeds,
           .words = baseline_words,
           .places = {"measured", "predicted"},
           .rounds = 20'000}};
}

}  // namespace tidemark::testing
