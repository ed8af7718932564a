#pragma once
// Seconds of a matrix product of a size: waves of tiles over the cores, never under its bytes. A small product needs no
// efficiency of its own: the tiles that its edges leave part empty and the cores that its last wave leaves idle give
// it.
//
//   columns
//   +-----+-----+--·     tiles = count x ceil(rows / tile rows) x ceil(columns / tile columns)
//   |  1  |  2  | 3      waves = tiles / cores, the last one half as costly as a whole one (blocks of different waves
//   +-----+-----+--·             overlap), the only one in full
//   |  4  |  5  | 6      a tile takes inner + tile_start steps; the fastest tile is taken
//
// Modelled; the rates are the device's fitted ones.

#include "core/chip.h"

namespace tidemark::cost {

/// `count` products [rows, inner] x [inner, columns]. Sizes are means, so they need not be whole.
struct Matmul {
  double rows = 0, columns = 0, inner = 0;
  double count = 1;
  Precision precision = Precision::bf16;
  bool is_grouped = false;  ///< of experts: rows differ between the products of one kernel
};

/// 0 where a size or the count is. REQUIRES: the device has tiles and a peak for the precision.
[[nodiscard]] double matmul_s(const Matmul& matmul, const Chip& device);

struct MatmulPasses {
  double forward_s = 0;
  double backward_s = 0;  ///< of both gradients: of the rows [rows, columns] x [columns, inner], of the weight
                          ///< [inner, rows] x [rows, columns]
};
[[nodiscard]] MatmulPasses matmul_passes(const Matmul& matmul, const Chip& device);

/// Whether products of the precision are faster than bf16's for their narrower elements, so that a layer casts to it.
[[nodiscard]] bool is_narrow(Precision precision, const Chip& device);

}  // namespace tidemark::cost
