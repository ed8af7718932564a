#include "planner/cost/matmul_time.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "planner/cost/memory_time.h"

namespace tidemark::cost {
namespace {

double reached_flops_per_s(const Matmul& matmul, const Chip& device) {
  double rate = device.sheet.peak(matmul.precision) * device.rates.matmul;
  if (is_narrow(matmul.precision, device)) rate *= device.rates.fp8;
  return matmul.is_grouped ? rate * device.rates.grouped_matmul : rate;
}

/// A tile's start and end take time, not length: at a higher peak they are worth more steps.
double start_steps(const Matmul& matmul, const Chip& device) {
  const double beside_bf16 = device.sheet.peak(matmul.precision) / device.sheet.peak(Precision::bf16);
  return device.rates.tile_start * std::max(1.0, beside_bf16);
}

/// Waves that `tiles` take of the cores, in time of a whole one.
double waves(double tiles, double cores) {
  const double exact = tiles / cores, whole = std::ceil(exact);
  return exact < 1 ? whole : (exact + whole) / 2;
}

double bytes(const Matmul& matmul) {
  constexpr double kElementBytes = 2;  // of fp8 too: its operands are cast from two bytes, its results are two bytes
  const double elements = matmul.rows * matmul.inner + matmul.inner * matmul.columns + matmul.rows * matmul.columns;
  return kElementBytes * matmul.count * elements;
}

}  // namespace

bool is_narrow(Precision precision, const Chip& device) {
  return device.sheet.peak(precision) > 1.5 * device.sheet.peak(Precision::bf16);
}

double matmul_s(const Matmul& matmul, const Chip& device) {
  if (std::min({matmul.rows, matmul.columns, matmul.inner, matmul.count}) <= 0) return 0;
  const double rate = reached_flops_per_s(matmul, device);
  const double steps = matmul.inner + start_steps(matmul, device);
  const double cores = static_cast<double>(device.sheet.cores);
  double fastest_s = std::numeric_limits<double>::infinity();
  for (const MatmulTile& tile : device.sheet.tiles) {
    const double rows = static_cast<double>(tile.rows), columns = static_cast<double>(tile.columns);
    const double tiles = matmul.count * std::ceil(matmul.rows / rows) * std::ceil(matmul.columns / columns);
    const double flops = waves(tiles, cores) * cores * 2 * rows * columns * steps;
    fastest_s = std::min(fastest_s, flops / (rate * tile.relative_rate));
  }
  return std::max(fastest_s, memory_s(bytes(matmul), device));
}

MatmulPasses matmul_passes(const Matmul& matmul, const Chip& device) {
  Matmul rows_gradient = matmul, weight_gradient = matmul;
  rows_gradient.columns = matmul.inner;
  rows_gradient.inner = matmul.columns;
  weight_gradient.rows = matmul.inner;
  weight_gradient.inner = matmul.rows;
  return {.forward_s = matmul_s(matmul, device),
          .backward_s = matmul_s(rows_gradient, device) + matmul_s(weight_gradient, device)};
}

}  // namespace tidemark::cost
