// What a rank had of its device, where its files tell it in pieces, for several devices, or not at all.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "integrations/measured/measured_run.h"
#include "planner/budget/holdings.h"
#include "tests/measured/sample_run.h"

namespace tidemark::measured {
namespace {

namespace fs = std::filesystem;
using budget::Category;

budget::Holdings good_run(const fs::path& place) {
  auto holdings = read_measured(place);
  EXPECT_TRUE(holdings.ok()) << holdings.error().message;
  return holdings ? std::move(holdings).value() : budget::Holdings{};
}

budget::RankHoldings rank_of_samples(const std::vector<std::string>& lines) {
  const TemporaryFolder folder;
  std::string text;
  for (const std::string& line : lines) text += R"({"tidemark_device_sample": 1, )" + line + "}\n";
  return good_run(folder.write("d.jsonl", text)).ranks.at(0);
}

TEST(RankPeak, IsAtLeastWhatTheDeviceReported) {
  for (const std::vector<std::string>& lines : std::vector<std::vector<std::string>>{
           {R"("device_used_bytes": 100, "allocator_reserved_peak_bytes": 30)"},
           {R"("device_used_bytes": 100)", R"("allocator_reserved_bytes": 30)"},
           {R"("device_used_bytes": 100, "allocator_allocated_bytes": 30)"},
           {R"("device_used_bytes": 100, "allocator_reserved_bytes": 30, "allocator_allocated_bytes": 20)"},
           {R"("device_used_bytes": 100)"}}) {
    EXPECT_EQ(rank_of_samples(lines).peak_bytes, 100) << lines.front();
  }
  // An allocator that held more than was sampled of the device.
  EXPECT_EQ(rank_of_samples({R"("device_used_bytes": 20)", R"("allocator_reserved_peak_bytes": 30)"}).peak_bytes, 30);
}

TEST(RankPeak, ADeviceIsNotCountedTwiceBesideATrace) {
  const TemporaryFolder folder;
  folder.write("rank_0.pickle", small_snapshot(100, 300));
  folder.write("rank_0_device_sample.jsonl", R"({"tidemark_device_sample": 1, "device_used_bytes": 1000})");
  EXPECT_EQ(good_run(folder.path()).ranks.at(0).peak_bytes, 1000);
}

/// As of a plan: so no reserve that a job keeps for what is outside the allocator lowers it below what is live.
TEST(RankPeak, BetweenStepsHasWhatThePeakHasBesideLiveBytes) {
  constexpr std::uint64_t kBlock = 4096 + 20 * kGiB;
  const TemporaryFolder folder;
  folder.write(
      "rank_0.pickle",
      pickled_snapshot({{.address = 4096, .blocks = {{.bytes = 20 * kGiB}, {.bytes = 2 * kGiB, .state = "inactive"}}}},
                       {{.action = "alloc", .address = kBlock, .bytes = kGiB},
                        {.action = "free_requested", .address = kBlock, .bytes = kGiB}}));
  folder.write("rank_0_device_sample.jsonl",
               R"({"tidemark_device_sample": 1, "device_used_bytes": )" + std::to_string(25 * kGiB) + "}");
  const budget::Holdings run = good_run(folder.path());
  EXPECT_EQ(run.ranks.at(0).peak_bytes, 25 * kGiB);
  EXPECT_EQ(run.ranks.at(0).by_phase[0], 24 * kGiB);  // 20 live, 1 cached, 3 outside
  EXPECT_EQ(budget::without_reserve(run, 3 * kGiB).ranks.at(0).by_phase[0], 21 * kGiB);
  EXPECT_EQ(budget::without_reserve(run, 9 * kGiB).ranks.at(0).by_phase[0], 21 * kGiB);
}

TEST(RankPeak, CategoriesThatNoFileTells) {
  const budget::RankHoldings samples = rank_of_samples({R"("allocator_allocated_bytes": 30)"});
  for (const Category untold : {Category::activations, Category::parameters, Category::cached, Category::reserve})
    EXPECT_TRUE(samples.is_untold[static_cast<std::size_t>(untold)]) << budget::word_of(untold);
  EXPECT_FALSE(samples.is_untold[static_cast<std::size_t>(Category::other)]);
  const TemporaryFolder folder;
  const budget::RankHoldings trace = good_run(folder.write("s.pickle", small_snapshot(100, 300))).ranks.at(0);
  EXPECT_FALSE(trace.is_untold[static_cast<std::size_t>(Category::activations)]);
  EXPECT_FALSE(trace.is_untold[static_cast<std::size_t>(Category::cached)]);
  EXPECT_TRUE(trace.is_untold[static_cast<std::size_t>(Category::reserve)]);
}

std::string alloc(std::int64_t bytes) {
  return pickled_entry({.action = "alloc", .address = 4096, .bytes = bytes, .frames = {{"w/t.py", "step"}}});
}

/// `segments`: bytes of one segment of a device, in use. `traces`: the entries of each device.
std::string snapshot_of_devices(const std::vector<std::pair<int, std::int64_t>>& segments,
                                const std::vector<std::vector<std::string>>& traces) {
  std::vector<std::string> rows, lists;
  for (const auto& [device, bytes] : segments)
    rows.push_back(
        pickled_dict({{"device", pickled_number(device)},
                      {"address", pickled_number(1 << 20)},
                      {"blocks", pickled_list({pickled_dict({{"size", pickled_number(bytes)},
                                                             {"state", pickled_text("active_allocated")}})})}}));
  for (const std::vector<std::string>& entries : traces) lists.push_back(pickled_list(entries));
  return pickled_dict({{"segments", pickled_list(rows)}, {"device_traces", pickled_list(lists)}}) + ".";
}

budget::Holdings run_of(const std::string& snapshot) {
  const TemporaryFolder folder;
  return good_run(folder.write("s.pickle", snapshot));
}

TEST(SnapshotDevice, IsTheOneThatHeldMost) {
  const budget::Holdings run = run_of(snapshot_of_devices({}, {{alloc(5)}, {alloc(100)}}));
  EXPECT_EQ(run.ranks.at(0).peak_bytes, 100);
  EXPECT_TRUE(run.is_understood);
  EXPECT_EQ(run.notes, std::vector<std::string>{"rank 0: devices '0' are not used; device 1 is"});
}

TEST(SnapshotDevice, WithoutAHistoryIsLookedAtAndDoubted) {
  const budget::Holdings run = run_of(snapshot_of_devices({{1, 100}}, {{alloc(5)}, {}}));
  EXPECT_EQ(run.ranks.at(0).peak_bytes, 100);
  EXPECT_FALSE(run.is_understood);
  ASSERT_EQ(run.notes.size(), 2U);
  EXPECT_EQ(run.notes[0], "rank 0: device 1 has no history: what it held at the end is known, not at its highest");
  const budget::Holdings smaller = run_of(snapshot_of_devices({{1, 3}}, {{alloc(5)}, {}}));
  EXPECT_EQ(smaller.ranks.at(0).peak_bytes, 5);
  EXPECT_EQ(smaller.notes, std::vector<std::string>{"rank 0: devices '1' are not used; device 0 is"});
}

TEST(SnapshotDevice, ARunThatDidNotFitIsDoubted) {
  const budget::Holdings run =
      run_of(snapshot_of_devices({}, {{alloc(70), pickled_entry({.action = "oom", .address = 0, .bytes = 40})}}));
  EXPECT_FALSE(run.is_understood);
  EXPECT_EQ(run.notes.at(0), "rank 0: the run did not fit: 1 allocations of up to 40 B failed for want of memory");
}

TEST(SnapshotDevice, AHistoryThatShowsNothingIsDoubted) {
  EXPECT_FALSE(run_of(snapshot_of_devices({}, {{pickled_entry({.action = "something", .bytes = 1})}})).is_understood);
  EXPECT_FALSE(run_of(snapshot_of_devices({}, {{pickled_entry({.action = "snapshot"})}})).is_understood);
  EXPECT_TRUE(
      run_of(snapshot_of_devices({}, {{alloc(5), pickled_entry({.action = "something", .bytes = 1})}})).is_understood);
}

TEST(SnapshotDevice, HistoriesThatShareAListAreRefused) {
  const TemporaryFolder folder;
  // A list of one entry, memoized as 0 and given to many devices.
  std::string shared = "(l" + alloc(5) + "ap0\n";
  std::string devices = "(l" + shared + "a";
  for (int i = 0; i < 1000; ++i) devices += "g0\na";
  const auto read = read_measured(
      folder.write("s.pickle", pickled_dict({{"segments", pickled_list({})}, {"device_traces", devices}}) + "."));
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.error().message.find("devices share a history"), std::string::npos) << read.error().message;
}

TEST(RankFolder, WhatIsNamedLikeAMeasurementMustBeAFile) {
  const auto wrong = [](const TemporaryFolder& folder) {
    const auto read = read_measured(folder.path());
    return folder.without_folder(read ? "read without complaint" : read.error().message);
  };
  constexpr std::string_view kSample = R"({"tidemark_device_sample": 1, "device_used_bytes": 7})";
  const TemporaryFolder dangling;
  dangling.write("device_sample_rank1.jsonl", kSample);
  fs::create_symlink("nowhere", dangling.path() / "device_sample_rank9.jsonl");
  EXPECT_EQ(wrong(dangling), "device_sample_rank9.jsonl: is a link that leads nowhere; give the file of the rank");
  const TemporaryFolder piped;
  piped.write("device_sample_rank1.jsonl", kSample);
  ASSERT_EQ(::mkfifo((piped.path() / "device_sample_rank9.jsonl").c_str(), 0600), 0);
  EXPECT_EQ(wrong(piped), "device_sample_rank9.jsonl: is not a regular file; give a file");
  const TemporaryFolder endless;
  endless.write("device_sample_rank1.jsonl", kSample);
  fs::create_symlink("/dev/zero", endless.path() / "device_sample_rank9.jsonl");
  EXPECT_EQ(wrong(endless), "device_sample_rank9.jsonl: is not a regular file; give a file");
  const TemporaryFolder linked;
  linked.write("rank_1/device_sample.jsonl", kSample);
  fs::create_directory_symlink("rank_1", linked.path() / "rank_9");
  EXPECT_EQ(wrong(linked), "rank_9: is a link to a folder, which is not followed; put the folder of the rank here");
  const TemporaryFolder other;
  other.write("device_sample_rank1.jsonl", kSample);
  fs::create_symlink("nowhere", other.path() / "notes.txt");
  EXPECT_EQ(good_run(other.path()).ranks.size(), 1U);
}

}  // namespace
}  // namespace tidemark::measured
