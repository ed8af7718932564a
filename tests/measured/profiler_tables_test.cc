// memory_record.csv, npu_module_mem.csv and device samples: what they tell, and what is said of wrong ones.

#include <gtest/gtest.h>

#include <string>

#include "integrations/formats/import_device_samples.h"
#include "integrations/formats/import_memory_record.h"
#include "integrations/measured/rank_measure.h"

namespace tidemark::measured {
namespace {

constexpr std::string_view kRecordHeader =
    "Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Total Active(MB),Stream Ptr,Device Type\n";

RankMeasure measure_record(std::string_view text) {
  const auto record = formats::read_memory_record(text, "r.csv");
  EXPECT_TRUE(record.ok()) << record.error().message;
  return record ? measure_of(record.value()) : RankMeasure{};
}

RankMeasure measure_samples(std::string_view text) {
  const auto samples = formats::read_device_samples(text, "d.jsonl");
  EXPECT_TRUE(samples.ok()) << samples.error().message;
  return samples ? measure_of(samples.value()) : RankMeasure{};
}

std::string wrong_record(std::string_view text) {
  const auto record = formats::read_memory_record(text, "r.csv");
  return record ? "read without complaint" : record.error().message;
}

std::string wrong_samples(std::string_view text) {
  const auto samples = formats::read_device_samples(text, "d.jsonl");
  return samples ? "read without complaint" : samples.error().message;
}

std::string rows(const budget::RankHoldings& rank) {
  std::string text;
  for (const budget::HeldStorage& held : rank.storages)
    text +=
        held.name + ": " + std::to_string(held.bytes / kMiB) + " " + std::string(budget::word_of(held.category)) + "\n";
  return text;
}

TEST(MemoryRecord, WhatTheProcessHasBesideItsAllocatorsIsOutside) {
  // The allocator grows behind the driver's first sample; what is beside it is counted where the process has most.
  const RankMeasure measure = measure_record(std::string(kRecordHeader) +
                                             "APP,30\t,,1500,,,NPU:0\n"
                                             "APP,10\t,,900,,,NPU:0\n"
                                             "PTA,5\t,100,400,100,2,NPU:0\n"
                                             "PTA,20\t,700,1000,700,2,NPU:0\n"
                                             "PTA,40\t,800,1100,700,2,NPU:0\n"
                                             "GE,25\t,10,50,,,NPU:0\n"
                                             "PTA+GE,25\t,710,1050,,,NPU:0\n");
  EXPECT_EQ(measure.outside_bytes, 450 * kMiB);
  EXPECT_EQ(measure.reserved_bytes, 1150 * kMiB);
  EXPECT_EQ(measure.allocated_bytes, 810 * kMiB);
  const budget::RankHoldings rank = holdings_of(0, "", measure);
  EXPECT_EQ(rank.peak_bytes, 1600 * kMiB);
  EXPECT_EQ(rows(rank), "allocated: 810 other\nheld outside the allocator: 450 reserve\ncached: 340 cached\n");
}

TEST(MemoryRecord, OfEqualMomentsOfTheProcessThatWithLeastBeside) {
  const RankMeasure measure = measure_record(std::string(kRecordHeader) +
                                             "PTA,5,1,400,1,2,NPU:0\nAPP,10,,1500,,,NPU:0\nPTA,15,1,900,1,2,NPU:0\n"
                                             "APP,20,,1500,,,NPU:0\n");
  EXPECT_EQ(measure.outside_bytes, 600 * kMiB);
}

TEST(MemoryRecord, BeforeTheFirstSampleOfTheAllocatorThatOneCounts) {
  EXPECT_EQ(measure_record(std::string(kRecordHeader) + "APP,1,,1000,,,NPU:0\nPTA,5,1,400,1,2,NPU:0\n").outside_bytes,
            600 * kMiB);
}

TEST(MemoryRecord, ComponentsOfCannAreNamed) {
  RankMeasure all = measure_record(std::string(kRecordHeader) + "PTA,5,1,400,1,2,NPU:0\nAPP,10,,1000,,,NPU:0\n");
  add(all, measure_record("Device_id,Component,Timestamp(us),Total Reserved(KB),Device\n"
                          "0,HCCL,7,204800,NPU:0\n0,HCCL,9,-1,NPU:0\n0,RUNTIME,7,51200,NPU:0\n"));
  EXPECT_EQ(
      rows(holdings_of(0, "", all)),
      "cached: 399 cached\nheld outside the allocator: 350 reserve\nHCCL: 200 communication\nRUNTIME: 50 reserve\n"
      "allocated: 1 other\n");
  EXPECT_EQ(all.notes, std::vector<std::string>{"1 rows without a total are not used"});
}

TEST(MemoryRecord, OnlyWhatIsToldIsSaid) {
  const RankMeasure process = measure_record(std::string(kRecordHeader) + "APP,1,,1000,,,NPU:0\n");
  EXPECT_EQ(rows(holdings_of(0, "", process)), "held outside the allocator: 1000 reserve\n");
  const RankMeasure allocator = measure_record(std::string(kRecordHeader) + "PTA,1,3,8,3,2,NPU:0\n");
  EXPECT_EQ(allocator.outside_bytes, std::nullopt);
  EXPECT_EQ(measure_record(std::string(kRecordHeader) + "PTA,1,3,8,3,2,NPU:0\nPTA,1,3,9,3,2,NPU:1\n").notes,
            std::vector<std::string>{"1 rows of other devices ('NPU:1', ...) are not used; those of 'NPU:0' are"});
}

TEST(MemoryRecord, WrongRowsAreNamed) {
  const std::string header(kRecordHeader);
  EXPECT_EQ(wrong_record(""), "r.csv:1: the file is empty; the first line names the columns");
  EXPECT_EQ(wrong_record("Component,Timestamp(us)\n").substr(0, 45), "r.csv:1: there is no column 'Total Reserved(M");
  EXPECT_EQ(wrong_record("Timestamp(us),Total Reserved(MB)\n").substr(0, 39),
            "r.csv:1: there is no column 'Component'");
  EXPECT_EQ(wrong_record(header), "r.csv:1: no row has a total");
  EXPECT_EQ(wrong_record(header + "PTA,1,,-1,,,NPU:0\n"), "r.csv:1: no row has a total");
  EXPECT_EQ(wrong_record(header + ",1,1,1,1,2,NPU:0\n"),
            "r.csv:2: Component is blank; it must name one, as PTA or APP");
  EXPECT_EQ(wrong_record(header + "PTA,soon,1,1,1,2,NPU:0\n").substr(0, 36), "r.csv:2: Timestamp(us) is 'soon'; it");
  EXPECT_EQ(wrong_record(header + "PTA,1,1,2000000000000,1,2,NPU:0\n"),
            "r.csv:2: Total Reserved(MB) is '2000000000000'; it must be at most 2^50 bytes");
  EXPECT_EQ(wrong_record(header + "PTA,1,1\n").substr(0, 8), "r.csv:2:");
}

constexpr std::string_view kSample = R"({"tidemark_device_sample": 1, )";

TEST(DeviceSamples, TheDifferenceToTheAllocatorIsOutside) {
  const RankMeasure measure = measure_samples(
      std::string(kSample) +
      R"("device_total_bytes": 1000, "device_used_bytes": 700, "allocator_reserved_bytes": 600})"
      "\n\n" +
      std::string(kSample) +
      R"("device_used_bytes": 750, "allocator_reserved_bytes": 500, "allocator_allocated_bytes": 400})"
      "\n" +
      std::string(kSample) + R"("label": "checkpoint", "host_peak_bytes": 9000, "host_pinned_bytes": 2000})");
  EXPECT_EQ(measure.outside_bytes, 250);
  EXPECT_EQ(measure.reserved_bytes, 600);
  EXPECT_EQ(measure.allocated_bytes, 400);
  EXPECT_EQ(measure.host_bytes, 9000);
  EXPECT_EQ(measure.notes, std::vector<std::string>{"host memory 8.79 KiB at most, the pinned pool 1.95 KiB at most"});
  EXPECT_EQ(holdings_of(0, "", measure).peak_bytes, 850);
}

TEST(DeviceSamples, PeaksOfTheAllocatorCount) {
  const RankMeasure measure = measure_samples(
      std::string(kSample) + R"("device_used_bytes": 700, "allocator_reserved_bytes": 600,)"
                             R"( "allocator_reserved_peak_bytes": 650, "allocator_allocated_peak_bytes": 640})");
  EXPECT_EQ(measure.reserved_bytes, 650);
  EXPECT_EQ(measure.allocated_bytes, 640);
  EXPECT_EQ(measure.outside_bytes, 100);
}

TEST(DeviceSamples, ADeviceWithoutAnAllocatorThatIsAskedIsAllOutside) {
  EXPECT_EQ(measure_samples(std::string(kSample) + R"("device_used_bytes": 700})").used_bytes, 700);
}

TEST(DeviceSamples, WrongLinesAreNamed) {
  const std::string sample(kSample);
  EXPECT_EQ(wrong_samples(""), "d.jsonl:1: the file holds no sample");
  EXPECT_EQ(wrong_samples("\n \n"), "d.jsonl:1: the file holds no sample");
  EXPECT_EQ(wrong_samples("{"),
            "d.jsonl:1: the line is no JSON object; right would be what tidemark.device_sample() writes");
  EXPECT_EQ(wrong_samples("\n[1]"), "d.jsonl:2: /: must be an object with a member 'tidemark_device_sample'");
  EXPECT_EQ(wrong_samples(R"({"tidemark_device_sample": 2, "device_used_bytes": 1})").substr(0, 36),
            "d.jsonl:1: /tidemark_device_sample: ");
  EXPECT_EQ(wrong_samples(sample + R"("rank": 3})"), "d.jsonl:1: the line holds no figure, as device_used_bytes");
  EXPECT_EQ(wrong_samples(sample + R"("device_used_byte": 3})").substr(0, 11), "d.jsonl:1: ");
  EXPECT_NE(wrong_samples(sample + R"("device_used_byte": 3})").find("device_used_byte"), std::string::npos);
  EXPECT_EQ(wrong_samples(sample + R"("device_used_bytes": -3})").substr(0, 31), "d.jsonl:1: /device_used_bytes: ");
  EXPECT_EQ(wrong_samples(sample + R"("device_used_bytes": 3, "device_used_bytes": 4})"),
            "d.jsonl:1: /: has the member 'device_used_bytes' twice");
  EXPECT_EQ(wrong_samples(sample + R"("device_used_bytes": 3, "device_total_bytes": 2})"),
            "d.jsonl:1: device_used_bytes is 3, more than device_total_bytes, 2");
  EXPECT_EQ(wrong_samples(sample +
                          R"("rank": 1, "device_used_bytes": 3})"
                          "\n" +
                          sample + R"("rank": 2, "device_used_bytes": 3})"),
            "d.jsonl:2: the sample is of rank 2, those before of rank 1; a file is of one rank");
}

}  // namespace
}  // namespace tidemark::measured
