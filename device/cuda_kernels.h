#pragma once
// The three kernels of the cuda back end: fill a range with a pattern (device/pattern.h), check one, take time. They
// are PTX text for the virtual architecture sm_52 (PTX ISA 6.0, which every driver since CUDA 9 compiles for every
// later GPU), so nothing has to be compiled when Tidemark is built.
//
// A check counts itself at most once in the report, however many words differ: the first thread to see a difference
// swaps the launch's serial into a slot of the report, later ones find it there.
// Threads: load() and unload() by one; the launches from any.

#include <atomic>
#include <cstdint>
#include <string>

#include "device/cuda_driver.h"

namespace tidemark::cuda {

/// The PTX text; its entries are the three names below.
[[nodiscard]] const char* kernel_text();
inline constexpr const char* kFillName = "tidemark_fill";
inline constexpr const char* kCheckName = "tidemark_check";
inline constexpr const char* kSpinName = "tidemark_spin";

inline constexpr std::size_t kReportSlots = 4096;  ///< checks that may be in flight at once without counting twice

/// In device memory, written by the check kernel, which knows these offsets.
struct Report {
  std::uint64_t mismatches = 0;
  std::uint64_t taken = 0;  ///< 1: the fields below describe the first one
  std::int64_t work_id = 0;
  std::uint64_t address = 0;
  std::int64_t bytes = 0;
  std::uint64_t seed = 0;
  std::uint64_t unused[2] = {};
};
static_assert(sizeof(Report) == 64, "the slots begin at byte 64");

class Kernels {
 public:
  /// REQUIRES: the context is current, here and in every other function; `driver` outlives this.
  explicit Kernels(const Driver& driver) : driver_(driver) {}

  [[nodiscard]] Code load();
  void unload();

  /// REQUIRES: load() succeeded; address % 8 == 0.
  [[nodiscard]] Code fill(Stream stream, const Touch& touch);
  [[nodiscard]] Code check(Stream stream, const Touch& touch, std::int64_t work_id);
  [[nodiscard]] Code spin(Stream stream, std::int64_t duration_ns);
  /// Waits for nothing but the copy.
  [[nodiscard]] Code read(Report& report);

 private:
  [[nodiscard]] Code find_functions();
  [[nodiscard]] Code launch(Function function, Stream stream, std::uint64_t words, void** parameters);

  const Driver& driver_;
  Module module_ = nullptr;
  Function fill_ = nullptr, check_ = nullptr, spin_ = nullptr;
  Pointer report_ = 0;
  std::atomic<std::uint64_t> serial_ = 0;
};

}  // namespace tidemark::cuda
