// The embedded PTX: what it computes, interpreted on the CPU over odd sizes and grids, and whether NVIDIA's assembler
// takes it, where one is installed. On a GPU the conformance suite runs it for real.

#include "device/cuda_kernels.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "device/pattern.h"
#include "tests/support/ptx_interpreter.h"

namespace tidemark::cuda {
namespace {

/// Memory for a kernel: aligned, with a margin that must stay as it is.
class Memory {
 public:
  explicit Memory(Bytes bytes) : words_(static_cast<std::size_t>(bytes) / 8 + 3, kMargin), bytes_(bytes) {}
  [[nodiscard]] unsigned char* data() { return reinterpret_cast<unsigned char*>(words_.data() + 1); }
  [[nodiscard]] std::uint64_t address() { return reinterpret_cast<std::uint64_t>(data()); }
  [[nodiscard]] bool margin_intact() {
    const std::vector<std::uint64_t> untouched(words_.size(), kMargin);
    const auto* const whole = reinterpret_cast<const unsigned char*>(untouched.data());
    const std::size_t end = 8 + static_cast<std::size_t>(bytes_), all = words_.size() * 8;
    return std::memcmp(words_.data(), whole, 8) == 0 && std::memcmp(data() - 8 + end, whole + end, all - end) == 0;
  }

 private:
  static constexpr std::uint64_t kMargin = 0x5A5A'5A5A'5A5A'5A5A;
  std::vector<std::uint64_t> words_;
  Bytes bytes_;
};

struct ReportMemory {
  Report report;
  std::uint64_t slots[kReportSlots] = {};
  [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(this); }
};

std::vector<std::uint64_t> pattern_arguments(Memory& memory, Bytes bytes, std::uint64_t seed) {
  return {memory.address(), static_cast<std::uint64_t>(bytes / 8), pattern_base(seed),
          static_cast<std::uint64_t>(bytes % 8)};
}

void run_check(Memory& memory, Bytes bytes, std::uint64_t seed, std::uint64_t serial, ReportMemory& report) {
  static const PtxKernel check(kernel_text(), kCheckName);
  std::vector<std::uint64_t> arguments = pattern_arguments(memory, bytes, seed);
  for (const std::uint64_t more : {report.address(), serial, 40 + serial, static_cast<std::uint64_t>(bytes), seed}) {
    arguments.push_back(more);
  }
  ASSERT_EQ(arguments.size(), check.parameter_count());
  check.run(arguments, 2, 3);
}

constexpr Bytes kSizes[] = {0, 1, 7, 8, 9, 15, 40, 48, 53, 200, 1023};

TEST(CudaKernels, FillWritesThePatternAndNothingElse) {
  const PtxKernel fill(kernel_text(), kFillName);
  for (const Bytes bytes : kSizes) {
    for (const std::uint32_t blocks : {1U, 2U, 7U}) {
      Memory memory(bytes);
      fill.run(pattern_arguments(memory, bytes, 99), blocks, 3);
      EXPECT_TRUE(holds_pattern(memory.data(), bytes, 99)) << bytes << " bytes, " << blocks << " blocks";
      EXPECT_TRUE(memory.margin_intact()) << bytes << " bytes, " << blocks << " blocks";
    }
  }
}

TEST(CudaKernels, CheckFindsEveryWrongByteOnce) {
  for (const Bytes bytes : kSizes) {
    if (bytes > 200) continue;  // a run for every byte
    Memory memory(bytes);
    fill_pattern(memory.data(), bytes, 7);
    ReportMemory report;
    run_check(memory, bytes, 7, 1, report);
    EXPECT_EQ(report.report.mismatches, 0U) << bytes;
    for (Bytes at = 0; at < bytes; ++at) {
      memory.data()[at] ^= 0x80;
      run_check(memory, bytes, 7, static_cast<std::uint64_t>(at + 2), report);
      ASSERT_EQ(report.report.mismatches, static_cast<std::uint64_t>(at + 1)) << "byte " << at << " of " << bytes;
      memory.data()[at] ^= 0x80;
    }
    EXPECT_EQ(report.report.taken, bytes > 0 ? 1U : 0U);
  }
}

TEST(CudaKernels, CheckCountsALaunchOnceAndDescribesTheFirst) {
  Memory memory(800);
  std::memset(memory.data(), 1, 800);  // every word is wrong
  ReportMemory report;
  for (std::uint64_t serial = 4090; serial < 4100; ++serial)
    run_check(memory, 800, 7, serial, report);  // wraps the slots
  EXPECT_EQ(report.report.mismatches, 10U);
  EXPECT_EQ(report.report.work_id, 40 + 4090);
  EXPECT_EQ(report.report.address, memory.address());
  EXPECT_EQ(report.report.bytes, 800);
  EXPECT_EQ(report.report.seed, 7U);
}

TEST(CudaKernels, SpinEndsAfterItsTime) {
  const PtxKernel spin(kernel_text(), kSpinName);
  spin.run({1000}, 1, 1);  // the interpreter's clock goes one nanosecond a look
  spin.run({0}, 1, 1);
}

TEST(CudaKernels, Assemble) {
  const std::string assembler = TIDEMARK_PTXAS;
  if (assembler.empty()) GTEST_SKIP() << "no ptxas on this machine";
  const auto stem = std::filesystem::temp_directory_path() / ("tidemark_kernels_" + std::to_string(getpid()));
  std::ofstream(stem.string() + ".ptx") << kernel_text();
  for (const std::string chip : {"sm_75", "sm_80", "sm_90"}) {
    const std::string command = assembler + " --warn-on-spills --warning-as-error -arch=" + chip + " " + stem.string() +
                                ".ptx -o " + stem.string() + ".cubin";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
  }
  std::filesystem::remove(stem.string() + ".ptx");
  std::filesystem::remove(stem.string() + ".cubin");
}

TEST(CudaKernels, EntriesHaveTheNamesThatAreLookedUp) {
  const std::string text = kernel_text();
  for (const std::string name : {kFillName, kCheckName, kSpinName}) {
    EXPECT_NE(text.find(".visible .entry " + name + "("), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace tidemark::cuda
