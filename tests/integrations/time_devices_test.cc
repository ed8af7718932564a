// Finding the devices that step times are predicted on.

#include "integrations/cli/time_devices.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/data.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

class TimeDevices : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  /// The sheet of a shipped device under another name.
  static std::string sheet_of(const std::string& name) {
    const std::string text = testing::text_of(testing::source_path("devices/chips/a100-80g.yaml"));
    const std::size_t at = text.find("\nsheet:");
    return "name: " + name + text.substr(at, text.find("\nfitted:") - at) + "\n";
  }
  static std::string complaint(const std::string& name) {
    const auto file = cli::read_named_time_device(name, shares());
    EXPECT_FALSE(file.ok());
    return file.ok() ? "" : file.error().message;
  }
  static std::vector<fs::path> shares() { return {testing::source_path("")}; }

  const fs::path folder_ =
      fs::path(::testing::TempDir()) / ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(TimeDevices, EveryShippedOneHasConstantsAndFactors) {
  const auto list = cli::list_time_devices(shares());
  EXPECT_EQ(list.size(), 15U);
  for (const cli::Description& device : list) {
    const auto file = cli::read_named_time_device(device.name, shares());
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ(file.value().name, device.name);
    EXPECT_FALSE(file.value().fitted.empty()) << device.name;
    EXPECT_EQ(file.value().factors.at(file.value().base_source), 1) << device.name;
  }
}

TEST_F(TimeDevices, SharedConstantsAreTheOwners) {
  const auto h100 = cli::read_named_time_device("h100", shares()), h200 = cli::read_named_time_device("h200", shares());
  ASSERT_TRUE(h100.ok() && h200.ok());
  EXPECT_EQ(h200.value().device.rates.matmul, h100.value().device.rates.matmul);
  EXPECT_EQ(h200.value().factors, h100.value().factors);
  EXPECT_GT(h200.value().device.sheet.memory_bytes_per_s, h100.value().device.sheet.memory_bytes_per_s);
}

TEST_F(TimeDevices, AFileOfOnesOwnMayShareWhatIsShipped) {
  const fs::path own = write("own.yaml", sheet_of("own") + "constants: h100\n");
  const auto file = cli::read_named_time_device(own.string(), shares());
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file.value().factors.at("dgxc"), 1);
}

TEST_F(TimeDevices, WhatIsNotThereIsNamedWithANearMiss) {
  EXPECT_NE(complaint("h10").find("no device 'h10' that step times are predicted on"), std::string::npos);
  EXPECT_NE(complaint("h10").find("h100"), std::string::npos);
  const fs::path own = write("own.yaml", sheet_of("own") + "constants: h300\n");
  EXPECT_TRUE(complaint(own.string()).starts_with(own.string() + ": no device 'h300'"));
  const fs::path chained = write("chained.yaml", sheet_of("chained") + "constants: h200\n");
  EXPECT_NE(complaint(chained.string()).find("chained takes its constants from h200, which takes them from h100"),
            std::string::npos);
  write("beside.yaml", sheet_of("other") + "constants: h100\n");
  const fs::path wrong = write("wrong.yaml", sheet_of("wrong") + "constants: beside\n");
  EXPECT_NE(complaint(wrong.string()).find("the name is 'other', but the file is taken for beside"), std::string::npos);
  EXPECT_NE(complaint(write("bad.yaml", "name: bad\n").string()).find("bad.yaml:1: the file lacks the key 'sheet'"),
            std::string::npos);
}

}  // namespace
}  // namespace tidemark
