#include "tests/fuzz/large_inputs.h"

#include <algorithm>
#include <map>

namespace tidemark::testing {
namespace {

using Inputs = std::vector<LargeInput>;

/// Pieces that mean something to some reader or other, or nothing.
Inputs of_any() {
  return {{"", std::string(1, '\0')},
          {"", "\xff"},
          {"", "\n"},
          {"", " "},
          {"", "x"},
          {"", "x\n"},
          {"", "#"},
          {"", "\""},
          {"", ","},
          {"", "["},
          {"", "{"},
          {"", "("},
          {"", "-"},
          {"", "\r"}};
}

Inputs of_yaml() {
  return {{"", "- \n"},
          {"", "a: \n"},
          {"", "k#: 1\n"},
          {"", "- - "},
          {"", "? "},
          {"", ": "},
          {"[", "1,", "]"},
          {"[", "[],", "]"},
          {"{", "a: 1, ", "}"},
          {"[", "? "},
          {"[", "a: "},
          {"\"", "x "},
          {"\"", "\n"},
          {"a: |\n", " x\n"},
          {"a: >\n", " x\n\n"},
          {"- &a x\n", "- *a\n"},
          {"", "- &a# x\n"},
          {"", "&a "},
          {"", "!!str "},
          {"", "%TAG !a# b\n"},
          {"", "---\n"},
          {"", "...\n"},
          {"[", "x\n", "]"},
          {"", "\xe2\x82\xac"},
          {"\xff\xfe", "a"},
          {"{\"a\": [", "{},", "]}"},
          {"", "k#:\n "},
          {"model: {layers: [", "moe,", "]}"},
          {"model: {layers: [", "moe x100000,", "]}"},
          {"parallel: {placement: {ranks: [[[", "0-99999,", "]]]}}"}};
}

Inputs of_json() {
  return {{"[", "0,", "0]"},
          {"[", "[],", "0]"},
          {"[", "{},", "0]"},
          {"[", "\"\",", "0]"},
          {"{", "\"k#\":0,", "\"\":0}"},
          {"", "[[{\"a\":"},
          {"[", "1e300,", "0]"},
          {"\"", "\\u0000", "\""},
          {"{", "\"a\":0,", "\"a\":0}"}};
}

Inputs of_table(const std::string& header, const std::string& row) {
  return {{header, row}, {"", "a,", "\n"}, {"", "a#,", "\n"}, {header, "\"\"\"\""}, {header, "# \n"}};
}

Inputs of_arguments() {
  return {{"torchrun a.py ", "--a# "},
          {"torchrun a.py --a ", "a "},
          {"torchrun a.py --a ", "@a "},
          {"A=(", "a ", ")\ntorchrun a.py --b \"${A[@]}\"\n"},
          {"A=(", "\"\" ", ")\ntorchrun a.py --b \"${A[@]}\" \"${A[@]}\"\n"},
          {"A=xxxxxxxxxxxxxxxx\n", "A=$A$A\n", "torchrun a.py --b $A\n"},
          {"A=(", "x (", ")\n"},
          {"", "A=("},
          {"[ ", "! ", "x ]\ntorchrun a.py --b 1\n"},
          {"", "A#=1\n"},
          {"", "torchrun a.py --num-layers 1\n"},
          {"", "${"},
          {"", "$("},
          {"", "$(("},
          {"", "\"$("},
          {"", "`"},
          {"", "if "},
          {"", "for "},
          {"", "cat <<A\n"},
          {"torchrun a.py --a ", "\\\n"},
          {"torchrun a.py --a ", "'' "},
          {"torchrun a.py --a $((", "1+", "1))"},
          {"torchrun a.py --a $((", "(", "1))"},
          {"torchrun a.py --a ", "${A:-", "1"},
          {"torchrun a.py --a ", "${A:=b}"},
          {"", "--a#: ${A:=xxxxxxxx}${A}${A}\n"},
          {"--a: ", "${A:=xxxxxxxx}"},
          {"", "--num-layers: 1\n"},
          {"{\"args\": {", "\"a#\": 1,", "\"b\": 1}}"}};
}

Inputs of_toml() {
  return {{"", "a# = 1\n"},
          {"", "[a#]\n"},
          {"", "[[a]]\n"},
          {"a = [", "1, ", "1]\n"},
          {"a = [", "[], ", "]\n"},
          {"a = ", "["},
          {"a = ", "{a = "},
          {"a = {", "b# = 1, ", "c = 1}\n"},
          {"a", ".a"},
          {"[a", ".a"},
          {"a = \"", "\\u0041"},
          {"a = \"\"\"", "x\n"},
          {"", "# x\n"},
          {"a = [", "{}, ", "]\n"}};
}

/// Keys that no table has, near to some that one has.
Inputs of_config() {
  return {{"model:\n", "  num_layer#: 1\n"},
          {"model:\n", "  hidden_sise: 1\n"},
          {"runner_config:\n", "  batch_size: 1\n"},
          {"model:\n", "  pipeline_model_parallel_layout: [[decoder]]\n"},
          {"model:\n  num_layers: 1\n  hidden_size: 8\n  pipeline_model_parallel_layout: [", "[decoder],", "[loss]]\n"},
          {"model:\n  model_config:\n    num_layers: 1\n    offset: [", "1,", "1]\n"},
          {"recompute_config:\n  recompute: [", "1,", "1]\n"}};
}

Inputs of_snapshot() {
  const std::string begin = "(dVsegments\n(lsVdevice_traces\n(l(l";
  return {
      {"", "]"},
      {"]", "\x94"},
      {"", "]\x94"},
      {"(", "N"},
      {"(d", "I1\nI1\ns"},
      {"(l", "(la"},
      {"", "(l"},
      {"(", "2"},
      {"L", "9"},
      {"", "(lp#\n"},
      {begin, "(dVaction\nValloc\nsVaddr\nI#\nsVsize\nI1\nsa", "aas."},
      {begin + "(dVaction\nValloc\nsVaddr\nI1\nsVsize\nI1\nsp1\na", "g1\na", "aas."},
      {begin + "(dVaction\nVsnapshot\nsp1\na", "g1\na", "aas."},
      {begin, "(dVaction\nVa#\nsa", "aas."},
      // One list of blocks for every segment.
      {"(dVdevice_traces\n(l(l(dVaction\nVoom\nsaasVsegments\n(l(dVdevice\nI0\nsVaddress\nI0\nsVblocks\n(l(dVsize\nI0\n"
       "sVstate\nVinactive\nsp1\na" +
           [] {
             std::string many;
             for (int i = 0; i < 100'000; ++i) many += "g1\na";
             return many;
           }() +
           "sp2\na",
       "g2\na", "s."}};
}

std::map<std::string_view, Inputs> special() {
  const std::string life = "id,lower,upper,size,gaps,apart,group\n";
  return {
      {"job", of_yaml()},
      {"device", of_yaml()},
      {"arguments", of_arguments()},
      {"bridge", of_config()},
      {"mindformers", of_config()},
      {"torchtitan", of_toml()},
      {"snapshot", of_snapshot()},
      {"table", of_table("id,lower,upper,size\n", "b#,0,1,1\n")},
      {"pack", of_table("id,lower,upper,size\n", "b#,0,1,1\n")},
      {"plan", of_json()},
      {"graph", of_json()},
      {"expert_counts", of_table("layer,micro_batch,device,rows\n", "0,0,#,1\n")},
      {"measured_memory", of_table("rank,allocated_mib\n", "#,1\n")},
      {"measured_runs", of_json()},
      {"time_truth", of_json()},
      {"time_device", of_yaml()},
      {"rate_candidates", of_yaml()},
      {"predicted_times", of_yaml()},
      {"calibration", of_json()},
      {"budget", of_yaml()},
      {"baseline", of_json()},
      {"search_log",
       {{"tidemark-search 1 0123456789abcdef\n", "a#\tfits\t5\t4\t3\t2\t1\t0\t9\t\n"},
        {"tidemark-search 1 0123456789abcdef\n", "\t"}}},
      {"session_log",
       {{"tidemark_session version=1 host_bytes=0\n", "op op=1\n"},
        {"tidemark_session version=1 host_bytes=0\n", " "},
        {"tidemark_session version=1 host_bytes=0\nop op=0", " op=0"}}},
      {"memory_record", of_table("Component,Timestamp(us),Total Reserved(MB)\n", "c#,#.5,1\n")},
      {"device_samples",
       {{"", "{\"tidemark_device_sample\": 1, \"host_peak_bytes\": 1}\n"},
        {"{\"tidemark_device_sample\": 1, ", "\"a#\": 1,", "\"b\": 1}"},
        {"", "{\"a\":", ""}}},
      {"host_files",
       {{"", "#,"}, {"", "0-65535,"}, {"Cpus_allowed_list:\t", "0-9,"}, {"", "Cpus_allowed_list\n"}, {"", " N#=1"}}},
      {"kernel_details", of_table("Step Id,Duration(us)\n", "#,1\n")},
      {"step_trace_time", of_table("Computing\n", "1\n")},
  };
}

/// What several of these forms have in common.
Inputs more(std::string_view reader) {
  if (reader == "arguments" || reader == "bridge" || reader == "mindformers") return of_yaml();
  if (reader == "measured_memory") return {{"{\"ranks\": [", "{\"rank\": #, \"allocated_mib\": 1},", "{}]}"}};
  if (reader == "measured_runs")
    return {{"{\"rows\": [", "{},", "{}]}"},
            {"{\"rows\": [{\"args\": {", "\"a#\": 1,", "\"b\": 1}}]}"},
            {"{\"rows\": [{\"ranks\": [", "{\"rank\": #, \"allocated_mib\": 1},", "{}]}]}"}};
  if (reader == "time_truth")
    return {{"{\"rows\": [", "{\"id\":\"#\"},", "{}]}"},
            {"{\"rows\": [{\"id\": \"a\", \"recompute\": {\"modules\": [", "\"a\",", "\"b\"]}}]}"},
            {"{\"rows\": [{\"id\": \"a\", \"recompute\": {\"modules\": \"", "a#,", "\"}}]}"}};
  if (reader == "predicted_times")
    return {{"{\"rows\": [", "{\"id\": \"#\", \"predicted_s\": 1},", "{\"id\": \"\", \"predicted_s\": 1}]}"},
            {"{\"rows\": [", "{\"id\": \"a\", \"predicted_s\": #},", "{}]}"}};
  if (reader == "rate_candidates") return {{"{\"candidates\": [", "{\"matmul\": 1},", "{}]}"}};
  if (reader == "time_device")
    return {{"sheet: {tiles: [", "[1, 1, #],", "[]]}\n"}, {"sources: {", "a#: 2, ", "a: 1}\n"}};
  if (reader == "budget") {
    const std::string jobs = "schema: tidemark-budget/1\njobs:\n";
    return {
        {jobs, "- {name: n#, model: m}\n"},
        // As many as there may be, each with a name that none of the others has.
        {jobs +
             [] {
               std::string many;
               for (int i = 0; i < 500; ++i) {
                 const std::string name = std::string(50, 'n') + std::to_string(i);
                 many += "- {name: " + name + ", model: m}\n- {name: m" + name + ", measured: m, capacity: 1GiB, " +
                         "predicted_by: p" + name + "}\n";
               }
               return many;
             }(),
         "#"},
        {jobs + "- name: a\n  model: m\n  limits:\n", "  - {category: other, at_most: #}\n"},
        {jobs + "- name: a\n  model: m\n  waivers:\n", "  - {owner: a, reason: b, expires: 2026-12-31, at_most: 1B}\n"},
        {jobs + "- name: a\n  model: m\n  limits: [{ranks: \"", "#,", "1\", at_most: 1B}]\n"},
        {jobs + "- name: a\n  model: m\n", "  capasity#: 1\n"}};
  }
  if (reader == "baseline") {
    const std::string job = R"("inputs": [], "runs": [], "ranks": [)";
    const std::string rank = R"("peak_bytes": 0, "host_bytes": null, "by_category": {}, "storages": [)";
    const std::string head = R"({"schema": "tidemark-baseline/1", "tool_version": "", "jobs": {)";
    return {{head, "\"j#\": {\"basis\": \"planned\", " + job + "{\"rank\": 0, " + rank + "]}]},", "\"\": 0}}"},
            {head + "\"a\": {\"basis\": \"planned\", " + job, "{\"rank\": #, " + rank + "]},", "0]}}}"},
            {head + "\"a\": {\"basis\": \"planned\", " + job + "{\"rank\": 0, " + rank,
             R"({"name": "s#", "category": "other", "count": 1, "bytes": 0},)", "{}]}]}}}"},
            {head + R"("a": {"basis": "measured", "inputs": [], "runs": [[)", R"({"rank": #, "peak_bytes": 1},)",
             "{}]]}}}"}};
  }
  if (reader == "calibration")
    return {{"{\"format\": \"tidemark.calibration\", \"version\": 1, \"sources\": [", "\"\",", "\"\"]}"}};
  if (reader == "graph")
    return {{"G 2000000 50000000\n", "N # 1 1 0 a\n"},
            {"G 2 50000000\nN 0 1 1 0 a\nN 1 1 1 0 b\n", "E 0 1\n"},
            {"{\"tidemark_graph\": 1, \"storages\": [", "{\"bytes\": 1},", "{\"bytes\": 1}], \"ops\": []}"},
            {"{\"tidemark_graph\": 1, \"storages\": [{\"bytes\": 1}], \"ops\": [",
             "{\"cost\": 1, \"reads\": [0], \"writes\": [0]},", "{\"cost\": 1, \"reads\": [0], \"writes\": [0]}]}"}};
  if (reader == "table")
    return {
        {"Thread,Time,Action,Pointer,Size,Stream\n", "1,1,allocate,#,1,0\n"},
        {"Thread,Time,Action,Pointer,Size,Stream\n", "1,1,free,#,1,0\n"},
        {"Action,Pointer,Size,Stream\n", "x,,,\n"},
        {"Name,Size(KB),Allocation Time(us),Release Time(us),Allocation Total Allocated(MB),Stream Ptr,Device Type\n",
         "a,1,#.1,,1,2,NPU:0\n"},
        {"id,lower,upper,size,gaps\n", "b#,0,9,4,1-2 3-4 5-6\n"}};
  if (reader == "attributed")
    return {{"Name,Size(KB),Allocation Time(us),Release Time(us)\n", "a#,1,#.1,\n"},
            {"(dVsegments\n(lsVdevice_traces\n(l(l",
             "(dVaction\nValloc\nsVaddr\nI#\nsVsize\nI1\nsVuser_metadata\nVlayers.#\nsa", "as."},
            // One frame in a long stack, one stack in many entries with words of their own.
            {"(dVsegments\n(lsVdevice_traces\n(l(l(dVaction\nValloc\nsVaddr\nI1\nsVsize\nI1\nsVframes\n(l(dVfilename\n"
             "Va.py\nsVname\nVf\nsp1\na",
             "g1\na", "saas."},
            {"(dVsegments\n(lsVdevice_traces\n(l(l(dVaction\nValloc\nsVaddr\nI1\nsVsize\nI1\nsVframes\n(l(dVfilename\n"
             "Va.py\nsVname\nVf\nsap1\nsa",
             "(dVaction\nValloc\nsVaddr\nI#\nsVsize\nI1\nsVframes\ng1\nsVcategory\nVc#\nsa", "as."}};
  if (reader == "pack")
    return {{"id,lower,upper,size,group\n", "b#,0,1,1,g\n"},
            {"id,lower,upper,size,group,alignment\n", "b#,0,1,1,g,#\n"},
            {"id,lower,upper,size,apart\nb,0,1,1,\n", "b#,0,1,1,b\n"},
            {"id,lower,upper,size,offset\n", "b#,0,1,1,#\n"},
            {"id,lower,upper,size,fixed\n", "b#,0,1,1,0\n"},
            {"id,lower,upper,size,hint,fixed\n", "b#,0,9,4,0,\n"},
            {"id,lower,upper,size,gaps,apart\nb,0,9000000,1,", "#-# ", ",\n"},
            {"id,lower,upper,size,gaps\n", "b#,0,9,4,1-2 3-4 5-6\n"}};
  return {};
}

}  // namespace

std::string LargeInput::bytes(std::size_t size) const {
  std::string text = begin;
  for (std::size_t number = 0;; ++number) {
    std::string next = piece;
    const std::string digits = std::to_string(number);
    // A lone `#` is itself.
    for (std::size_t at = piece.size() > 1 ? next.find('#') : std::string::npos; at != std::string::npos;
         at = next.find('#', at + digits.size()))
      next.replace(at, 1, digits);
    if (text.size() + next.size() + end.size() > size) return text + end;
    text += next;
  }
}

std::string LargeInput::name() const {
  std::string text = begin.substr(0, 80) + "(" + piece.substr(0, 80) + ")*" + end.substr(0, 80);
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20; }, '?');
  return text;
}

std::vector<LargeInput> large_inputs(std::string_view reader) {
  Inputs inputs = of_any();
  const auto append = [&](Inputs next) { std::ranges::move(next, std::back_inserter(inputs)); };
  const std::map<std::string_view, Inputs> all = special();
  if (const auto found = all.find(reader); found != all.end()) append(found->second);
  append(more(reader));
  return inputs;
}

}  // namespace tidemark::testing
