// What a run held, measured: whatever a reader takes becomes holdings that add up, in names that are one short line.

#include <string>
#include <vector>

#include "integrations/measured/rank_measure.h"
#include "tests/fuzz/input_bodies.h"

namespace tidemark::testing {
namespace {

std::vector<std::string> attributed_seeds() {
  return {
      "(dVsegments\n(l(dVdevice\nI0\nsVaddress\nI4096\nsVblocks\n(l(dVsize\nI512\nsVstate\nVactive_"
      "allocated\nsVframes\n"
      "(l(dVfilename\nVa/b.py\nsVname\nVf\nsasa(dVsize\nI512\nsVstate\nVinactive\nsasasVdevice_traces\n(l(l"
      "(dVaction\nVsegment_alloc\nsVaddr\nI4096\nsVsize\nI1024\nsa"
      "(dVaction\nValloc\nsVaddr\nI4096\nsVsize\nI512\nsVframes\n(l(dVfilename\nV/v/site-packages/torch/optim/"
      "adam.py\ns"
      "Vname\nVstep\nsa(dVfilename\nVa/b.py\nsVname\nVg\nsasVuser_metadata\nVgradients: layer 7\nsaas.",
      "Name,Size(KB),Allocation Time(us),Release Time(us),Allocation Total Allocated(MB),Allocation Total Reserved(MB),"
      "Release Total Reserved(MB),Stream Ptr,Device Type\n"
      "aten::mm,1024,10,,3,8,,2,NPU:0\nc10d::allreduce_,512,30.5\t,40,4.5,10,12,2,NPU:0\n"};
}

std::vector<std::string> attributed_words() {
  return {"V",
          "\n",
          "I1\n",
          "s",
          "a",
          "(l",
          "(d",
          "Vcategory\n",
          "Vparameter\n",
          "Vframes\n",
          "torch/",
          ".py",
          "_call_impl",
          ",",
          "-1",
          "0",
          "9223372036854775807",
          "segment_free",
          "segment_map",
          "free_requested",
          "1099511627776",
          "\xff",
          "::",
          ": "};
}

/// The parts of a rank add up to its peak, by category and by storage.
Verdict check_held(const formats::AttributedTrace& run, Reached& reached) {
  const budget::RankHoldings rank = measured::holdings_of(0, "", measured::measure_of(run));
  Bytes by_category = 0, by_storage = 0;
  for (const Bytes bytes : rank.by_category) by_category += bytes;
  for (const budget::HeldStorage& held : rank.storages) {
    by_storage += held.bytes;
    if (held.bytes <= 0 || held.count < 1) return "a storage holds nothing";
    if (Verdict wrong = check_line(held.name)) return wrong;
    if (held.category == budget::Category::optimizer_state) ++reached["optimizer"];
  }
  if (by_category != rank.peak_bytes || by_storage != rank.peak_bytes) return "the parts are not the peak";
  return check_line(rank.peak_at);
}

std::vector<std::string> record_seeds() {
  return {
      "Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Total Active(MB),Stream Ptr,Device Type\n"
      "PTA,10.5\t,3,8,3,2,NPU:0\nAPP,20,,12,,,NPU:0\nGE,5,1,-1,,,NPU:0\n",
      "Device_id,Component,Timestamp(us),Total Reserved(KB),Device\n0,HCCL,7,204800,NPU:0\n"};
}

std::vector<std::string> record_words() {
  return {",", "\n", "0", "-1", "1e9", "9223372036854775807", "1125899906842624", "APP", "PTA+GE", "\"", "#", "NPU:1"};
}

std::vector<std::string> sample_seeds() {
  return {
      R"({"tidemark_device_sample": 1, "rank": 3, "device": "npu:0", "device_total_bytes": 100,)"
      R"( "device_used_bytes": 70,)"
      R"( "allocator_reserved_bytes": 60, "allocator_allocated_bytes": 50})"
      "\n\n"
      R"({"tidemark_device_sample": 1, "rank": 3, "label": "checkpoint", "host_peak_bytes": 9, "host_pinned_bytes": 8})"
      "\n",
      R"({"tidemark_device_sample": 1, "allocator_reserved_peak_bytes": 60, "allocator_allocated_peak_bytes": 50})"};
}

std::vector<std::string> sample_words() {
  return {"{", "}", "[", "]", ",", ":", "\"", "\n", "null", "-1", "0", "1e300", "1152921504606846977", "\"rank\": 4, ",
          "2"};
}

std::vector<std::string> host_seeds() {
  return {"0-3,8,10-11\n", "Name:\tpython\nPPid:\t40\nCpus_allowed_list:\t0-3,16-19\nMems_allowed_list:\t0-1\n",
          "Node 0 MemTotal:       4679884 kB\nNode 0 MemFree: 1 kB\n",
          "55d0c0000000 interleave=static:0-1 file=/usr/bin/python3 mapped=3 N0=2 N1=1 kernelpagesize_kB=4\n",
          "00000000:AF:00.0"};
}

std::vector<std::string> host_words() {
  return {",",  "-", "\n", "0", "65535", "65536", "bind", "prefer (many):", "N1=", "kernelpagesize_kB=1048576",
          "\t", ":"};
}

}  // namespace

std::vector<FuzzTarget> held_targets() {
  checked_beyond().attributed = check_held;
  return {{.name = "attributed",
           .seeds = attributed_seeds,
           .words = attributed_words,
           .places = {"stacks", "reserved"},
           .rounds = 20'000},
          {.name = "memory_record", .seeds = record_seeds, .words = record_words, .places = {}, .rounds = 20'000},
          {.name = "device_samples", .seeds = sample_seeds, .words = sample_words, .places = {}, .rounds = 20'000},
          {.name = "host_files", .seeds = host_seeds, .words = host_words, .places = {}, .rounds = 20'000}};
}

}  // namespace tidemark::testing
