// How close to the load do the packers come on pipeline-shaped items, and how long do they take?
// Prints a table: instance, packer, items, load, height, excess over the load, best of three times. Modelled shapes.

#include <fmt/format.h>

#include <chrono>
#include <string>

#include "planner/layout/packer.h"
#include "tests/support/pipeline_items.h"

namespace {

using namespace tidemark;

constexpr Bytes kAlignment = 512;

double milliseconds_of(const Packer& packer, std::span<const PackItem> items, Packing& packing) {
  double best = 1e300;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    packing = packer.pack(items, kAlignment);
    const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
    best = std::min(best, taken.count());
  }
  return best;
}

void report(const std::string& instance, const std::vector<PackItem>& items) {
  const Bytes load = packing_load(items, kAlignment);
  for (const Packer& packer : packers()) {
    Packing packing;
    const double ms = milliseconds_of(packer, items, packing);
    const double excess = 100.0 * (static_cast<double>(packing.height_bytes) / static_cast<double>(load) - 1.0);
    fmt::print("{:<26} {:<24} {:>7} {:>12} {:>12} {:>8.2f} {:>9.2f}\n", instance, packer.name, items.size(),
               format_bytes(load), format_bytes(packing.height_bytes), excess, ms);
  }
}

}  // namespace

int main() {
  fmt::print("{:<26} {:<24} {:>7} {:>12} {:>12} {:>8} {:>9}\n", "instance", "packer", "items", "load", "height",
             "excess %", "ms");
  for (const bool cut : {false, true}) {
    for (const double spread : {0.0, 0.5}) {
      const std::string name = fmt::format("{} f±{:.1f}", cut ? "recipe" : "keep-all", spread);
      report("rank 2 " + name, pipeline_items({.cut_gaps = cut, .load_spread = spread}));
      report("x10 batches " + name, pipeline_items({.micro_batches = 640, .cut_gaps = cut, .load_spread = spread}));
      report("x10 layers " + name, pipeline_items({.layers_per_chunk = 20, .cut_gaps = cut, .load_spread = spread}));
    }
  }
  return 0;
}
