#pragma once
// Devices of round rates: figures of tests are then closed forms a reader can follow.

#include "core/chip.h"

namespace tidemark::cost {

/// 100 cores, 1000 TFLOP/s in bf16 and twice that in fp8, 2 TB/s, links of 400 and 40 GB/s, eight a node, one tile;
/// what is reached of each is a power of a half.
inline Chip round_device() {
  Chip device;
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    device.sheet.flops_per_s[static_cast<std::size_t>(precision)] = 1000e12;
  }
  device.sheet.flops_per_s[static_cast<std::size_t>(Precision::fp8)] = 2000e12;
  device.sheet.flops_per_s[static_cast<std::size_t>(Precision::tf32)] = 250e12;
  device.sheet.memory_bytes_per_s = 2e12;
  device.sheet.cores = 100;
  device.sheet.tiles = {{.rows = 256, .columns = 128, .relative_rate = 1}};
  device.sheet.intra_bytes_per_s = 400e9;
  device.sheet.inter_bytes_per_s = 40e9;
  device.sheet.host_bytes_per_s = 40e9;
  device.rates = {.matmul = 0.5,
                  .tile_start = 100,
                  .memory = 0.5,
                  .launch_s = 10e-6,
                  .intra_link = 0.5,
                  .inter_link = 0.5,
                  .hop_s = 20e-6,
                  .attention = 0.5,
                  .grouped_matmul = 0.5,
                  .fp8 = 0.5};
  return device;
}

/// Of several tiles, as real kernels have.
inline Chip many_tiles_device() {
  Chip device = round_device();
  device.sheet.tiles = {{256, 128, 1.0}, {128, 128, 0.93}, {128, 64, 0.80}, {64, 64, 0.60}};
  return device;
}

}  // namespace tidemark::cost
