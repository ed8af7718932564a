// Files and folders of ranks as holdings, and what is said of folders that cannot be meant.

#include "integrations/measured/measured_run.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "integrations/formats/import_device_samples.h"
#include "integrations/measured/measured_file.h"
#include "integrations/measured/rank_files.h"
#include "tests/measured/sample_run.h"
#include "tests/support/data.h"

namespace tidemark::measured {
namespace {

constexpr std::string_view kOperators =
    "Name,Size(KB),Allocation Time(us),Release Time(us),Allocation Total Reserved(MB)\naten::mm,1024,10,,8\n";
constexpr std::string_view kRecord =
    "Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Total Active(MB),Stream Ptr,Device Type\n"
    "PTA,5,1,8,1,2,NPU:0\nAPP,10,,20,,,NPU:0\n";
constexpr std::string_view kSample = R"({"tidemark_device_sample": 1, "device_used_bytes": 700})";

budget::Holdings good(const std::filesystem::path& place) {
  auto holdings = read_measured(place);
  EXPECT_TRUE(holdings.ok()) << holdings.error().message;
  return holdings ? std::move(holdings).value() : budget::Holdings{};
}

std::string wrong(const TemporaryFolder& folder, std::string_view below = "") {
  const auto holdings = read_measured(below.empty() ? folder.path() : folder.path() / below);
  return folder.without_folder(holdings ? "read without complaint" : holdings.error().message);
}

TEST(MeasuredFile, RanksInNames) {
  EXPECT_EQ(rank_in_name("rank3.pickle"), 3);
  EXPECT_EQ(rank_in_name("snapshot_rank_3.pickle"), 3);
  EXPECT_EQ(rank_in_name("Rank-12"), 12);
  EXPECT_EQ(rank_in_name("dp_rank=7_x"), 7);
  EXPECT_EQ(rank_in_name("rank_0_operator_memory.csv"), 0);
  EXPECT_EQ(rank_in_name("ranks_of_rank5"), 5);
  EXPECT_EQ(rank_in_name("frank3.pickle"), std::nullopt);
  EXPECT_EQ(rank_in_name("rank.pickle"), std::nullopt);
  EXPECT_EQ(rank_in_name("rank_-3.pickle"), std::nullopt);
  EXPECT_EQ(rank_in_name("rank99999999999.pickle"), std::nullopt);
  EXPECT_EQ(rank_in_name("snapshot_1768383987920985470.pkl"), std::nullopt);
  EXPECT_EQ(rank_of_profiler_info("profiler_info_31.json"), 31);
  EXPECT_EQ(rank_of_profiler_info("profiler_info.json"), std::nullopt);
  EXPECT_EQ(rank_of_profiler_info("profiler_info_.json"), std::nullopt);
  EXPECT_EQ(rank_of_profiler_info("profiler_info_1x.json"), std::nullopt);
}

TEST(MeasuredRun, OneFileIsRankZeroOrWhatItsNameSays) {
  const TemporaryFolder folder;
  const budget::Holdings one = good(folder.write("snapshot.pickle", small_snapshot(100, 300)));
  ASSERT_EQ(one.ranks.size(), 1u);
  EXPECT_EQ(one.basis, budget::Basis::measured);
  EXPECT_EQ(one.ranks[0].rank, 0);
  EXPECT_EQ(one.ranks[0].place, "snapshot.pickle");
  EXPECT_EQ(one.ranks[0].peak_bytes, 300);
  EXPECT_EQ(good(folder.write("rank_5.pickle", small_snapshot(100, 300))).ranks[0].rank, 5);
  EXPECT_EQ(good(folder.write("rank_6/x.csv", kOperators)).ranks[0].rank, 6);  // its content says what it is
}

TEST(MeasuredRun, AFolderOfRanksInAscendingOrder) {
  const TemporaryFolder folder;
  folder.write("rank_10/snapshot.pickle", small_snapshot(100, 300));
  folder.write("rank_2/snapshot.pickle", small_snapshot(200, 300));
  folder.write("rank_2/notes.txt", "of no concern");
  folder.write("kernel_details.csv", "Name,Type\n");
  const budget::Holdings run = good(folder.path());
  ASSERT_EQ(run.ranks.size(), 2u);
  EXPECT_EQ(run.ranks[0].rank, 2);
  EXPECT_EQ(run.ranks[0].place, "rank_2/snapshot.pickle");
  EXPECT_EQ(run.ranks[0].storages[0].bytes, 200);
  EXPECT_EQ(run.ranks[1].rank, 10);
}

TEST(MeasuredRun, AFolderOfARankThatHoldsNothingIsSaid) {
  const TemporaryFolder folder;
  folder.write("rank_0/snapshot.pickle", small_snapshot(100, 300));
  folder.write("rank_2/notes.txt", "the run was killed");
  folder.write("PROF_1/rank_7/x.txt", "of no concern");
  const budget::Holdings run = good(folder.path());
  EXPECT_EQ(run.untold_ranks, std::vector<std::int64_t>{2});
  EXPECT_EQ(run.notes, std::vector<std::string>{"rank 2: the folder rank_2 holds no measurement"});
  folder.write("rank_2/snapshot.pickle", small_snapshot(100, 300));
  EXPECT_TRUE(good(folder.path()).untold_ranks.empty());
}

TEST(MeasuredRun, AFileOfARankThatHoldsNothingIsSaid) {
  const TemporaryFolder folder;
  folder.write("rank_0.jsonl", kSample);
  folder.write("rank_1.jsonl", "");
  folder.write("rank_2.csv", "\n \n");
  folder.write("rank_3.json", std::string(64, '\0'));
  folder.write("rank_4.jsonl", kSample.substr(0, 9));
  folder.write("rank_5.json", R"({"a trace": []})");
  folder.write("rank_6.txt", "");
  folder.write("notes.json", "");
  const budget::Holdings run = good(folder.path());
  ASSERT_EQ(run.ranks.size(), 1U);
  EXPECT_EQ(run.untold_ranks, (std::vector<std::int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(run.notes.at(0), "rank 1: the file rank_1.jsonl holds no measurement");
  for (const char* name : {"rank_1.jsonl", "rank_2.csv", "rank_3.json", "rank_4.jsonl"}) folder.write(name, kSample);
  EXPECT_TRUE(good(folder.path()).untold_ranks.empty());
  EXPECT_EQ(good(folder.path()).ranks.size(), 5U);
}

TEST(MeasuredFile, EndingsOfNames) {
  for (const char* name : {"rank_2.jsonl", "rank_2.JSONL", "x.ndjson", "a.b.csv", "s.PKL", "rank_2", "Rank3"})
    EXPECT_EQ(ending_of(name), NameEnding::measurement) << name;
  for (const char* name : {"rank_2.jsonl.gz", "rank_2.csv.part", "rank_2.jsonl.1", "rank_2.jsonl~", "rank_2.gz",
                           ".rank_2.jsonl.Xy12Ab", "rank_2.tar.zst"})
    EXPECT_EQ(ending_of(name), NameEnding::packed) << name;
  for (const char* name : {"rank_2.log", "rank_2.log.gz", "rank_2.pt", "log_rank_2", "README.md",
                           "rank3.pt.trace.json.gz", "events.out.tfevents.17.rank_0", "core.1234", "", "."})
    EXPECT_EQ(ending_of(name), NameEnding::other) << name;
  EXPECT_EQ(kind_by_name("RANK_3.PICKLE"), MeasuredKind::snapshot);
  EXPECT_EQ(kind_by_name("Operator_Memory.CSV"), MeasuredKind::operator_memory);
}

// Another case of letters or another word for lines of JSON is no reason to read less.
TEST(MeasuredRun, FilesAreReadWhateverTheirEndingsLookLike) {
  for (const char* name : {"rank_2.ndjson", "rank_2.JSONL", "rank_2.txt", "rank_2",
                           "node1/a/b/c/d/e/f/g/h/i/j/k/l/m/n/"
                           "o/p/q/r/s/rank_2.jsonl"}) {
    const TemporaryFolder folder;
    folder.write("rank_0.jsonl", kSample);
    folder.write(name, kSample);
    const budget::Holdings run = good(folder.path());
    ASSERT_EQ(run.ranks.size(), 2U) << name;
    EXPECT_EQ(run.ranks[1].rank, 2) << name;
    EXPECT_TRUE(run.untold_ranks.empty()) << name;
  }
}

TEST(MeasuredRun, ARankIsLostToNoFileThatIsNotRead) {
  const std::vector<std::pair<std::string, std::string>> files = {
      {"rank_2.jsonl", "Killed\n"},
      {"rank_2.jsonl", R"({"rank": 2, "tidemark_dev)"},
      {"rank_2.json", R"({"rank": 2, "tidemark_dev)"},
      {"rank_2.csv", "Killed\n"},
      {"rank_2.csv", "Name,Size(K"},
      {"rank_2", "Killed\n"},
      {"rank_2.jsonl.gz", "\x1f\x8b"},
      {"rank_2.jsonl.part", std::string(kSample)},
      {"PROF_1/rank_2.jsonl", std::string(kSample)},
      {"PROF_1/rank_2/device_sample.jsonl", std::string(kSample)}};
  for (const auto& [name, text] : files) {
    const TemporaryFolder folder;
    folder.write("rank_0.jsonl", kSample);
    folder.write(name, text);
    const budget::Holdings run = good(folder.path());
    EXPECT_EQ(run.ranks.size(), 1U) << name;
    EXPECT_EQ(run.untold_ranks, std::vector<std::int64_t>{2}) << name << ": " << text;
    EXPECT_TRUE(run.notes.at(0).starts_with("rank 2: the file " + name + " ")) << run.notes.at(0);
  }
}

TEST(MeasuredRun, WhatIsNoMeasurementOfARankIsOfNoConcern) {
  const TemporaryFolder folder;
  folder.write("rank_0.jsonl", kSample);
  for (const char* name : {"README", "train.log", "rank_2.log", "log_rank_3", "rank_4.pt", "rank_5_trace.txt.gz",
                           "rank6.pt.trace.json.gz", "events.out.tfevents.17.rank_7", "rank_8.yaml"})
    folder.write(name, "\x80 of no concern\n");
  for (const char* name : {"config.json", "metrics.jsonl"}) folder.write(name, "{\"step\": 1}\n");
  folder.write("kernels_rank_9.csv", "Name,Type\nmm,x\n");
  std::filesystem::create_directory(folder.path() / "checkpoints");
  std::filesystem::create_directory_symlink("checkpoints", folder.path() / "latest");
  const budget::Holdings run = good(folder.path());
  EXPECT_EQ(run.ranks.size(), 1U);
  EXPECT_TRUE(run.untold_ranks.empty()) << run.untold_ranks.front();
  EXPECT_TRUE(run.is_understood);
  EXPECT_TRUE(run.notes.empty()) << run.notes.front();
}

TEST(MeasuredRun, WhatIsNamedForARankAndIsNoFileIsRefused) {
  const auto after = [](const char* name, const auto& make) {
    const TemporaryFolder folder;
    folder.write("rank_0.jsonl", kSample);
    make(folder.path() / name);
    return wrong(folder);
  };
  const auto nowhere = [](const std::filesystem::path& path) { std::filesystem::create_symlink("/nowhere/x", path); };
  const auto loop = [](const std::filesystem::path& path) { std::filesystem::create_symlink(path.filename(), path); };
  const auto pipe = [](const std::filesystem::path& path) { ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0); };
  const std::string leads = ": is a link that leads nowhere; give the file of the rank";
  for (const char* name : {"rank_2.jsonl", "rank_2", "rank_2.ndjson", "rank_2.jsonl.gz"}) {
    EXPECT_EQ(after(name, nowhere), name + leads);
    EXPECT_EQ(after(name, loop), name + leads);
    EXPECT_EQ(after(name, pipe), std::string(name) + ": is not a regular file; give a file");
  }
  EXPECT_EQ(after("rank_2.log", nowhere), "read without complaint");
}

TEST(MeasuredRun, ALinkToAFolderOfMeasurementsIsNamed) {
  const TemporaryFolder folder, elsewhere;
  folder.write("node0/rank_0.jsonl", kSample);
  elsewhere.write("deep/rank_3.jsonl", kSample);
  std::filesystem::create_directory_symlink(elsewhere.path(), folder.path() / "node1");
  std::filesystem::create_directory_symlink(elsewhere.path(), elsewhere.path() / "again");
  std::filesystem::create_directory_symlink("node0", folder.path() / "same");
  budget::Holdings run = good(folder.path());
  EXPECT_FALSE(run.is_understood);
  EXPECT_EQ(run.doubts, std::vector<std::string>{"node1 is a link to a folder, which is not followed, and holds "
                                                 "deep/rank_3.jsonl; put the folder in its place"});
  EXPECT_EQ(run.notes, run.doubts);
  std::filesystem::remove(elsewhere.path() / "deep/rank_3.jsonl");
  EXPECT_TRUE(good(folder.path()).is_understood);
  std::filesystem::remove_all(elsewhere.path());
  run = good(folder.path());
  EXPECT_FALSE(run.is_understood);
  EXPECT_EQ(run.doubts,
            std::vector<std::string>{"node1 is a link that leads nowhere; remove it, or give what it led to"});
  std::filesystem::create_directories(elsewhere.path());
}

TEST(MeasuredRun, AFileOfARankThatCannotBeReadIsAnError) {
  const TemporaryFolder folder;
  folder.write("rank_0.jsonl", kSample);
  const auto locked = folder.write("rank_1.jsonl", kSample), other = folder.write("other.json", "{}");
  for (const auto& path : {locked, other}) std::filesystem::permissions(path, std::filesystem::perms::none);
  if (std::ifstream(locked)) GTEST_SKIP() << "this user may read everything";
  EXPECT_EQ(wrong(folder), "rank_1.jsonl: cannot read: Permission denied");
  std::filesystem::remove(locked);
  EXPECT_EQ(good(folder.path()).ranks.size(), 1U);  // what is named for no rank is of no concern
}

TEST(MeasuredRun, NumbersWithoutAFileAreNoted) {
  const TemporaryFolder folder;
  folder.write("rank_0.jsonl", kSample);
  folder.write("rank_3.jsonl", kSample);
  EXPECT_EQ(good(folder.path()).notes, std::vector<std::string>{"ranks 0 to 3: no file is named for 2 of them"});
  EXPECT_TRUE(good(folder.path()).is_understood);
  folder.write("rank_1.jsonl", "");
  EXPECT_EQ(good(folder.path()).notes.back(), "ranks 0 to 3: no file is named for 1 of them");
  folder.write("rank_2/snapshot.txt", "");
  EXPECT_EQ(good(folder.path()).notes.back(), "rank 2: the folder rank_2 holds no measurement");
}

TEST(MeasuredRun, TheBytesThatAreReadAreSeenOnce) {
  const TemporaryFolder folder;
  const std::string zero = small_snapshot(100, 300), two = small_snapshot(200, 300);
  folder.write("rank_2.pickle", two);
  folder.write("rank_0.pickle", zero);
  for (const int rank : {0, 2}) folder.write("rank_" + std::to_string(rank) + "_device_sample.jsonl", kSample);
  std::vector<std::string> seen;
  ASSERT_TRUE(read_measured(folder.path(), [&seen](std::string_view bytes) { seen.emplace_back(bytes); }).ok());
  EXPECT_EQ(seen, (std::vector<std::string>{zero, std::string(kSample), two, std::string(kSample)}));
}

TEST(MeasuredRun, SizesThatNoBaselineHoldsAreRefused) {
  const TemporaryFolder folder;
  const auto sample = [](std::string_view figure, std::string_view bytes) {
    return R"({"tidemark_device_sample": 1, "allocator_allocated_bytes": 5, ")" + std::string(figure) +
           "\": " + std::string(bytes) + "}";
  };
  for (const char* figure : {"device_used_bytes", "host_peak_bytes"}) {
    folder.write("rank_3.jsonl", sample(figure, "1125899906842625"));
    EXPECT_EQ(wrong(folder), "rank_3.jsonl:1: rank 3 held more than 2^50 bytes by it, which no device and no host has");
    folder.write("rank_3.jsonl", sample(figure, "1125899906842624"));
    EXPECT_EQ(good(folder.path()).ranks.size(), 1U);
  }
}

TEST(MeasuredRun, FilesOfOneRankCountTogether) {
  const TemporaryFolder folder;
  folder.write("rank_0_operator_memory.csv", kOperators);
  folder.write("rank_0_memory_record.csv", kRecord);
  folder.write("rank_0_device_sample.jsonl", R"({"tidemark_device_sample": 1, "rank": 0, "host_peak_bytes": 77})");
  const budget::Holdings run = good(folder.path());
  ASSERT_EQ(run.ranks.size(), 1u);
  EXPECT_EQ(run.ranks[0].peak_bytes, 20 * kMiB);
  EXPECT_EQ(run.ranks[0].host_bytes, 77);
  EXPECT_EQ(run.ranks[0].by_category[static_cast<std::size_t>(budget::Category::reserve)], 12 * kMiB);
  EXPECT_EQ(run.source, folder.path().string() + ", operator_memory.csv + memory_record.csv + device samples");
}

TEST(MeasuredRun, FoldersOfTorchNpusProfiler) {
  const TemporaryFolder folder;
  for (const std::string rank : {"0", "3"}) {
    const std::string own = "host_7" + rank + "_2026_ascend_pt/";
    folder.write(own + "profiler_info_" + rank + ".json", "{}");
    folder.write(own + "ASCEND_PROFILER_OUTPUT/operator_memory.csv", kOperators);
    folder.write(own + "ASCEND_PROFILER_OUTPUT/memory_record.csv", kRecord);
    folder.write(own + "PROF_000001/mindstudio_profiler_output/memory_record_1.csv", "what the output was made from");
  }
  const budget::Holdings run = good(folder.path());
  ASSERT_EQ(run.ranks.size(), 2u);
  EXPECT_EQ(run.ranks[1].rank, 3);
}

TEST(MeasuredRun, AFolderOfTorchNpusProfilerIsOfOneRank) {
  const TemporaryFolder folder;
  folder.write("x_ascend_pt/ASCEND_PROFILER_OUTPUT/operator_memory.csv", kOperators);
  folder.write("x_ascend_pt/profiler_info_1.json", "{}");
  EXPECT_EQ(good(folder.path()).ranks.at(0).rank, 1);
  folder.write("x_ascend_pt/profiler_info_0.json", "{}");
  EXPECT_EQ(wrong(folder),
            "x_ascend_pt/profiler_info_0.json: names another rank than profiler_info_1.json beside it; a folder is of "
            "one rank, keep the file of that one");
}

TEST(MeasuredRun, FoldersThatCannotBeMeantNameBothFiles) {
  const TemporaryFolder twice;
  twice.write("a/rank_1.pickle", small_snapshot(1, 2));
  twice.write("b/rank_1.pickle", small_snapshot(1, 2));
  EXPECT_EQ(wrong(twice),
            "a/rank_1.pickle: two files tell what rank 1 held (memory snapshot and memory snapshot); give one of them; "
            "the other is b/rank_1.pickle");
  const TemporaryFolder traces;
  traces.write("rank_1.pickle", small_snapshot(1, 2));
  traces.write("rank_1_operator_memory.csv", kOperators);
  EXPECT_EQ(
      wrong(traces),
      "rank_1.pickle: two files tell what rank 1 held (memory snapshot and operator_memory.csv); give one of them; "
      "the other is rank_1_operator_memory.csv");
  const TemporaryFolder kinds;
  kinds.write("rank_1.pickle", small_snapshot(1, 2));
  kinds.write("rank_2_operator_memory.csv", kOperators);
  EXPECT_EQ(
      wrong(kinds),
      "rank_1.pickle: ranks 1 and 2 are measured by different kinds of files; every rank needs the same; the other "
      "is rank_2_operator_memory.csv");
  const TemporaryFolder unnamed;
  unnamed.write("rank_1.pickle", small_snapshot(1, 2));
  unnamed.write("other.pickle", small_snapshot(1, 2));
  EXPECT_EQ(wrong(unnamed),
            "other.pickle: no rank in its name or in that of a folder, as others have; right would be for instance "
            "rank_3.pickle");
  const TemporaryFolder both;
  both.write("rank_1/rank_2.pickle", small_snapshot(1, 2));
  EXPECT_EQ(wrong(both), "rank_1/rank_2.pickle: the file is named for rank 2 and its folder 'rank_1' for rank 1");
}

TEST(MeasuredRun, WhatCannotBeReadIsOneError) {
  const TemporaryFolder folder;
  EXPECT_EQ(wrong(folder).substr(0, 41), "FOLDER: the folder holds no measurement; ");
  folder.write("rank_0.pickle", "not a pickle");
  folder.write("rank_1.pickle", small_snapshot(1, 2));
  EXPECT_EQ(wrong(folder).substr(0, 21), "rank_0.pickle: byte 0");
  EXPECT_EQ(wrong(folder, "missing.pickle").substr(0, 14), "missing.pickle");
  folder.write("model.yaml", "model: x\n");
  EXPECT_EQ(wrong(folder, "model.yaml").substr(0, 44), "model.yaml:1: is no measurement that is know");
  folder.write("host.jsonl", R"({"tidemark_device_sample": 1, "host_peak_bytes": 7})");
  EXPECT_EQ(wrong(folder, "host.jsonl").substr(0, 60), "host.jsonl:1: nothing of the device's memory was measured, o");
  folder.write("rank_4_device_sample.jsonl", R"({"tidemark_device_sample": 1, "rank": 5, "device_used_bytes": 7})");
  EXPECT_EQ(wrong(folder, "rank_4_device_sample.jsonl"),
            "rank_4_device_sample.jsonl:1: the sample is of rank 5; by its name the file is of rank 4");
}

TEST(MeasuredRun, TheSameFilesGiveTheSameHoldings) {
  const TemporaryFolder folder;
  for (int rank = 0; rank < 20; ++rank)
    folder.write("rank_" + std::to_string(rank) + ".pickle", small_snapshot(rank + 1, 300, "f" + std::to_string(rank)));
  const budget::Holdings first = good(folder.path()), second = good(folder.path());
  EXPECT_EQ(first.ranks, second.ranks);
  EXPECT_EQ(first.ranks.size(), 20u);
}

/// The package writes a line as a training would, and it is read; its members are those of the schema.
TEST(MeasuredRun, SamplesThatPythonWrites) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "rank_{rank}_device_sample.jsonl").string();
  const std::string program =
      "import sys,types;p=types.ModuleType('tidemark');p.__path__=[sys.argv[1]];sys.modules['tidemark']=p;"
      "from tidemark.device_samples import device_sample,host_peak;device_sample(sys.argv[2],rank=2,label='a');"
      "h=host_peak(sys.argv[2],rank=2);h.__enter__();b=bytearray(2**24);h.__exit__(None,None,None)";
  const std::string command = std::string(TIDEMARK_PYTHON) + " -B -c \"" + program + "\" '" +
                              testing::source_path("integrations/pytorch/tidemark").string() + "' '" + path + "'";
  ASSERT_EQ(std::system(command.c_str()), 0);
  folder.write("rank_2.pickle", small_snapshot(100, 300));
  const budget::Holdings run = good(folder.path());
  ASSERT_EQ(run.ranks.size(), 1u);
  EXPECT_EQ(run.ranks[0].rank, 2);
  EXPECT_GT(run.ranks[0].host_bytes.value_or(0), 4 * kMiB);
}

TEST(DeviceSampleSchema, NamesWhatTheReaderTakes) {
  const auto schema =
      nlohmann::json::parse(testing::text_of(testing::source_path("docs/schemas/device_sample.schema.json")));
  const auto is_unknown = [](const std::string& name, const nlohmann::json& value) {
    nlohmann::json line = {{"tidemark_device_sample", 1}, {"host_peak_bytes", 1}};
    line[name] = value;
    return !formats::read_device_samples(line.dump(), "d").ok();
  };
  std::size_t sizes = 0;
  for (const auto& [name, property] : schema.at("properties").items()) {
    const bool is_text = property.value("type", "") == "string";
    if (property.contains("$ref")) ++sizes;
    EXPECT_FALSE(is_unknown(name, is_text ? nlohmann::json("x") : nlohmann::json(1))) << name;
  }
  EXPECT_EQ(sizes, 8u);
  EXPECT_EQ(schema.at("anyOf").size(), 8u);
  EXPECT_TRUE(is_unknown("another", 1));
}

TEST(MeasuredRun, RealFiles) {
  const auto folder = testing::data_path("ascend_profiler");
  if (!folder) GTEST_SKIP() << "no reference data (set TIDEMARK_DATA)";
  const budget::Holdings run = good(*folder);
  ASSERT_EQ(run.ranks.size(), 1u);
  EXPECT_EQ(run.ranks[0].place, "rank_0_operator_memory.csv");
  EXPECT_EQ(run.ranks[0].peak_bytes, 10'372 * kMiB);
}

}  // namespace
}  // namespace tidemark::measured
