// The embedded PTX goes through NVIDIA's assembler where one is installed; what the kernels do is checked by the
// conformance suite on a GPU.

#include "device/cuda_kernels.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace tidemark::cuda {
namespace {

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
