#include "planner/cost/matmul_time.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "planner/cost/memory_time.h"
#include "planner/cost/rounded_max.h"
#include "tests/planner/cost/timed_devices.h"

namespace tidemark::cost {
namespace {

/// Sizes from a row to tens of thousands, evenly in their logarithm.
class RandomSizes {
 public:
  Matmul next() {
    return {.rows = size(), .columns = size(), .inner = size(), .count = std::floor(std::exp2(3 * share_(engine_)))};
  }

 private:
  double size() { return std::floor(std::exp2(16 * share_(engine_))); }
  std::mt19937_64 engine_{24};
  std::uniform_real_distribution<double> share_{0, 1};
};

constexpr double Matmul::*kSizes[] = {&Matmul::rows, &Matmul::columns, &Matmul::inner, &Matmul::count};

TEST(MatmulTime, IsWavesOfTilesEachWithAStart) {
  // 100 tiles of 256 x 128, 1000 + 100 steps, on 100 cores at 500 TFLOP/s: one wave. Then 150: (1.5 + 2) / 2 waves.
  const double wave_s = 100 * 2.0 * 256 * 128 * 1100 / 500e12;
  Chip device = round_device();
  device.sheet.memory_bytes_per_s = 1e18;  // not what this is about
  EXPECT_DOUBLE_EQ(matmul_s({.rows = 2560, .columns = 1280, .inner = 1000}, device), wave_s);
  EXPECT_DOUBLE_EQ(matmul_s({.rows = 3840, .columns = 1280, .inner = 1000}, device), 1.75 * wave_s);
  EXPECT_DOUBLE_EQ(matmul_s({.rows = 3839, .columns = 1153, .inner = 1000}, device), 1.75 * wave_s)
      << "edges are whole";
  EXPECT_DOUBLE_EQ(matmul_s({.rows = 2560, .columns = 100, .inner = 1000, .count = 10}, device), wave_s) << "batched";
}

TEST(MatmulTime, OneWaveTakesAsLongWithFewTiles) {
  const Chip device = round_device();
  EXPECT_EQ(matmul_s({.rows = 256, .columns = 128, .inner = 8000}, device),
            matmul_s({.rows = 2560, .columns = 1280, .inner = 8000}, device));
}

TEST(MatmulTime, NarrowIsFasterButItsTilesStartAsLate) {
  const Chip device = round_device();
  const Matmul wide{.rows = 2560, .columns = 1280, .inner = 1000};
  Matmul narrow = wide, slow = wide, grouped = wide;
  narrow.precision = Precision::fp8;
  slow.precision = Precision::tf32;
  grouped.is_grouped = true;
  const double wave_flops_a_step = 100 * 2.0 * 256 * 128;
  EXPECT_DOUBLE_EQ(matmul_s(narrow, device), wave_flops_a_step * 1200 / 500e12) << "2000 TFLOP/s x 0.5 x 0.5, 2 x 100";
  EXPECT_DOUBLE_EQ(matmul_s(slow, device), wave_flops_a_step * 1100 / 125e12) << "no fewer steps below the bf16 peak";
  EXPECT_DOUBLE_EQ(matmul_s(grouped, device), 2 * matmul_s(wide, device));
}

TEST(MatmulTime, NarrowMeansFasterThanBf16) {
  Chip device = round_device();
  EXPECT_TRUE(is_narrow(Precision::fp8, device));
  EXPECT_FALSE(is_narrow(Precision::bf16, device));
  device.sheet.flops_per_s[static_cast<std::size_t>(Precision::fp8)] = device.sheet.peak(Precision::bf16);
  EXPECT_FALSE(is_narrow(Precision::fp8, device)) << "a device without fp8 units runs it as bf16";
}

TEST(MatmulTime, NothingTakesNoTime) {
  for (double Matmul::*size : kSizes) {
    Matmul matmul{.rows = 512, .columns = 512, .inner = 512};
    matmul.*size = 0;
    EXPECT_EQ(matmul_s(matmul, round_device()), 0);
  }
}

TEST(MatmulTime, IsNeverUnderItsFlopNorItsBytes) {
  const Chip device = many_tiles_device();
  RandomSizes sizes;
  int flop_bound = 0, byte_bound = 0;
  for (int i = 0; i < 2000; ++i) {
    const Matmul m = sizes.next();
    const double took_s = matmul_s(m, device);
    const double flop_s = 2 * m.count * m.rows * m.columns * m.inner / (device.sheet.peak(m.precision) * 0.5);
    const double bytes = 2 * m.count * (m.rows * m.inner + m.inner * m.columns + m.rows * m.columns);
    const double byte_s = memory_s(bytes, device);
    ASSERT_GE(took_s, flop_s);
    ASSERT_GE(took_s, byte_s);
    flop_bound += took_s < 1.2 * flop_s;
    byte_bound += took_s == byte_s;
  }
  EXPECT_GT(flop_bound, 100);
  EXPECT_GT(byte_bound, 100) << "both bounds are met, or the sizes are too much alike";
}

TEST(MatmulTime, GrowsWithEachSizeAndTwiceTheSizeIsAtMostTwiceTheTime) {
  const Chip device = many_tiles_device();
  RandomSizes sizes;
  for (int i = 0; i < 2000; ++i) {
    const Matmul matmul = sizes.next();
    const double took_s = matmul_s(matmul, device);
    for (double Matmul::*size : kSizes) {
      Matmul longer = matmul, doubled = matmul;
      longer.*size += 1;
      doubled.*size *= 2;
      ASSERT_GE(matmul_s(longer, device), took_s);
      ASSERT_LE(matmul_s(doubled, device), 2 * took_s * (1 + 1e-12));
    }
  }
}

TEST(MatmulTime, MoreTilesToChooseFromAreNeverSlower) {
  RandomSizes sizes;
  int faster = 0;
  for (int i = 0; i < 500; ++i) {
    const Matmul matmul = sizes.next();
    const double one_s = matmul_s(matmul, round_device()), many_s = matmul_s(matmul, many_tiles_device());
    ASSERT_LE(many_s, one_s);
    faster += many_s < one_s;
  }
  EXPECT_GT(faster, 100);
}

TEST(MatmulTime, BackwardIsBothGradients) {
  const Chip device = many_tiles_device();
  const MatmulPasses passes = matmul_passes({.rows = 4096, .columns = 11008, .inner = 2048, .count = 2}, device);
  EXPECT_EQ(passes.forward_s, matmul_s({.rows = 4096, .columns = 11008, .inner = 2048, .count = 2}, device));
  EXPECT_EQ(passes.backward_s, matmul_s({.rows = 4096, .columns = 2048, .inner = 11008, .count = 2}, device) +
                                   matmul_s({.rows = 2048, .columns = 11008, .inner = 4096, .count = 2}, device));
}

TEST(MemoryTime, IsBytesOverWhatIsReached) {
  EXPECT_DOUBLE_EQ(memory_s(3e9, round_device()), 3e-3);
}

TEST(RoundedMax, IsTheLongerLaneAndMoreWhereBothAreLong) {
  EXPECT_DOUBLE_EQ(rounded_max(3, 4, 2), 5);
  EXPECT_DOUBLE_EQ(rounded_max(4, 3, 2), 5);
  EXPECT_DOUBLE_EQ(rounded_max(2, 2, 3), 2 * std::cbrt(2));
  EXPECT_EQ(rounded_max(0, 4, 3), 4);
  EXPECT_EQ(rounded_max(4, 0, 3), 4);
  EXPECT_EQ(rounded_max(0, 0, 3), 0);
  EXPECT_NEAR(rounded_max(1, 100, 3), 100, 1e-4) << "far from the corner it is the maximum";
}

}  // namespace
}  // namespace tidemark::cost
