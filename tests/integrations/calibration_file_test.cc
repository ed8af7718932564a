// The overlay of corrections and what it is made from.

#include "integrations/formats/calibration_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "integrations/formats/import_measured_memory.h"
#include "integrations/formats/import_op_times.h"

namespace tidemark {
namespace {

using estimate::Calibration;

template <class T>
std::string message_of(const Result<T>& result) {
  EXPECT_FALSE(result.ok());
  if (result.ok()) return "";
  EXPECT_EQ(result.error().code, Error::Code::bad_input);
  EXPECT_EQ(result.error().message.find('\n'), std::string::npos);
  return result.error().message;
}

TEST(CalibrationFile, ReadsBackAsItWasWritten) {
  std::mt19937_64 random(23);
  const auto maybe = [&random](double least, double most) {
    return random() % 2 == 0 ? std::nullopt : std::optional(std::uniform_real_distribution(least, most)(random));
  };
  for (int round = 0; round < 200; ++round) {
    Calibration calibration{
        .op_time_scale = maybe(0.01, 100), .d2h_bytes_per_s = maybe(1e6, 1e12), .h2d_bytes_per_s = maybe(1e6, 1e12)};
    if (random() % 2 == 0)
      calibration.memory = {.model = "gpt, \"12\" layers\n",
                            .static_offset_bytes = std::uniform_real_distribution(0.0, 1e11)(random),
                            .static_factor = std::uniform_real_distribution(0.5, 1.0)(random),
                            .activation_factor = maybe(0.5, 2.0)};
    for (std::uint64_t i = random() % 3; i > 0; --i) calibration.sources.push_back("a measurement");
    const Result<Calibration> back = formats::read_calibration(formats::write_calibration(calibration), "c.json");
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(back.value(), calibration);
  }
}

TEST(CalibrationFile, WhatIsWrongIsNamed) {
  const auto complaint = [](const std::string& text) { return message_of(formats::read_calibration(text, "c.json")); };
  const std::string head = R"("format": "tidemark.calibration", "version": 1)";
  EXPECT_TRUE(formats::read_calibration("{" + head + "}", "c.json").ok());
  EXPECT_EQ(complaint("{}"), "c.json: /: has no member 'format'");
  EXPECT_NE(complaint(R"({"format": "tidemark.plan"})").find("/format: must be one of tidemark.calibration"),
            std::string::npos);
  EXPECT_NE(complaint(R"({"format": "tidemark.calibration", "version": 2})").find("/version"), std::string::npos);
  EXPECT_NE(complaint("{" + head + R"(, "op_time_scal": 2})").find("did you mean 'op_time_scale'?"), std::string::npos);
  EXPECT_NE(complaint("{" + head + R"(, "op_time_scale": 0})").find("/op_time_scale: is 0; it must be above 0"),
            std::string::npos);
  EXPECT_NE(complaint("{" + head + R"(, "d2h_bytes_per_s": "23GB/s"})").find("/d2h_bytes_per_s: must be a number"),
            std::string::npos);
  EXPECT_NE(
      complaint("{" + head +
                R"(, "memory": {"model": "x", "static_offset_bytes": 0, "static_factor": 1, "activation_factor": 9}})")
          .find("/memory/activation_factor"),
      std::string::npos);
  EXPECT_NE(complaint("{" + head + R"(, "memory": {"model": "x", "activation_factor": 1}})")
                .find("/memory: has no member 'static_offset_bytes'"),
            std::string::npos);
  EXPECT_NE(complaint("{" + head).find("c.json:1:"), std::string::npos);
}

TEST(Corrections, ReplaceLinksAndAddUp) {
  Machine machine;
  machine.d2h.bytes_per_s = 1e9;
  machine.h2d.bytes_per_s = 2e9;
  const Machine changed = estimate::corrected(machine, {.d2h_bytes_per_s = 5e9});
  EXPECT_EQ(changed.d2h.bytes_per_s, 5e9);
  EXPECT_EQ(changed.h2d.bytes_per_s, 2e9);
  const estimate::MemoryKnobs knobs = estimate::corrected(
      estimate::MemoryKnobs{.activation_factor = 1.5, .static_offset_bytes = 10},
      estimate::MemoryCorrection{.static_offset_bytes = 5, .static_factor = 0.5, .activation_factor = 2});
  EXPECT_EQ(knobs.static_offset_bytes, 15);
  EXPECT_EQ(knobs.static_factor, 0.5);
  EXPECT_EQ(knobs.activation_factor, 3);
}

// ---- measured memory ------------------------------------------------------------------------------------------------

TEST(MeasuredMemory, CsvAndJsonSayTheSame) {
  const auto csv = formats::read_measured_memory("rank,allocated_mib,max_allocated_mib\n0,100.5,200\n8,50,\n", "m.csv");
  const auto json = formats::read_measured_memory(
      R"( {"ranks": [{"rank": 0, "allocated_mib": 100.5, "max_allocated_mib": 200}, {"rank": 8, "allocated_mib": 50}]})",
      "m.json");
  ASSERT_TRUE(csv.ok() && json.ok());
  for (const auto& ranks : {csv.value(), json.value()}) {
    ASSERT_EQ(ranks.size(), 2U);
    EXPECT_EQ(ranks[0].rank, 0);
    EXPECT_EQ(ranks[0].steady_bytes, 100.5 * kMiB);
    EXPECT_EQ(ranks[0].peak_bytes, 200.0 * kMiB);
    EXPECT_EQ(ranks[1].rank, 8);
    EXPECT_FALSE(ranks[1].peak_bytes.has_value());
  }
}

TEST(MeasuredMemory, WhatIsWrongIsNamed) {
  const auto complaint = [](const std::string& text) { return message_of(formats::read_measured_memory(text, "m")); };
  EXPECT_NE(complaint("rank,allocated_mib\n").find("m: holds no rank"), std::string::npos);
  EXPECT_NE(complaint("rank,alocated_mib\n0,1\n").find("allocated_mib"), std::string::npos);
  EXPECT_NE(complaint("rank,allocated_mib\n-1,1\n").find("m:2: rank is '-1'"), std::string::npos);
  EXPECT_NE(complaint("rank,allocated_mib\n0,0\n").find("m:2: allocated_mib is 0"), std::string::npos);
  EXPECT_NE(complaint("rank,allocated_mib,max_allocated_mib\n0,5,4\n")
                .find("m:2: rank 0: max_allocated_mib must not be below"),
            std::string::npos);
  EXPECT_EQ(complaint("rank,allocated_mib\n0,5\n1,5\n0,6\n"),
            "m:4: rank 0 is there twice; one figure per rank is needed");
  EXPECT_NE(complaint(R"({"ranks": [{"rank": 0, "allocated_mib": 5}, {"rank": 0, "allocated_mib": 5}]})")
                .find("/ranks/1: rank 0 is there twice"),
            std::string::npos);
  EXPECT_NE(complaint(R"({"ranks": [{"rank": 0}]})").find("m: /ranks/0: has no member 'allocated_mib'"),
            std::string::npos);
  EXPECT_NE(complaint(R"({"ranks": []})").find("holds no rank"), std::string::npos);
}

// ---- compute times --------------------------------------------------------------------------------------------------

TEST(OpTimes, KernelsOfAStepAddUpWithoutCommunication) {
  const auto time = formats::read_kernel_details(
      "Step Id,Name,Accelerator Core,Start Time(us),Duration(us)\n"
      "3,MatMul,AI_CORE,1.0\t,100.5\n3,allreduce,HCCL,2.0\t,900\n3,Add,AI_VECTOR_CORE,3.0\t,9.5\n"
      "4,MatMul,AI_CORE,4.0\t,130\n,Stray,AI_CORE,5.0\t,77\n",
      "k.csv");
  ASSERT_TRUE(time.ok()) << time.error().message;
  EXPECT_EQ(time.value().steps, 2);
  EXPECT_EQ(time.value().rows, 3);
  EXPECT_DOUBLE_EQ(time.value().step_ns, (100.5 + 9.5 + 130) * 1000 / 2);
}

TEST(OpTimes, AFileWithoutStepsIsOneStep) {
  const auto time = formats::read_kernel_details("Name,Duration(us)\nA,1\nB,2\n", "k.csv");
  ASSERT_TRUE(time.ok());
  EXPECT_EQ(time.value().steps, 1);
  EXPECT_DOUBLE_EQ(time.value().step_ns, 3000);
}

TEST(OpTimes, StepTraceIsAveraged) {
  const auto time = formats::read_step_trace_time(
      "Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble\n"
      "1,1000,10,20,30,5,1040,0\n2,3000,10,20,30,5,3040,0\n",
      "s.csv");
  ASSERT_TRUE(time.ok()) << time.error().message;
  EXPECT_EQ(time.value().steps, 2);
  EXPECT_DOUBLE_EQ(time.value().step_ns, 2e6);
}

TEST(OpTimes, StepsOfTwoDevicesAreNotAveraged) {
  EXPECT_TRUE(formats::read_step_trace_time("Device_id,Step,Computing\n3,1,1000\n3,2,3000\n", "s.csv").ok());
  EXPECT_NE(message_of(formats::read_step_trace_time("Device_id,Step,Computing\n0,1,1000\n1,1,3000\n", "s.csv"))
                .find("s.csv:3: device '1' beside device '0'"),
            std::string::npos);
}

TEST(OpTimes, WhatIsWrongIsNamed) {
  EXPECT_NE(message_of(formats::read_kernel_details("Name,Duration\nA,1\n", "k.csv")).find("Duration(us)"),
            std::string::npos);
  EXPECT_NE(
      message_of(formats::read_kernel_details("Name,Duration(us)\nA,fast\n", "k.csv")).find("k.csv:2: Duration(us) is"),
      std::string::npos);
  EXPECT_NE(message_of(formats::read_kernel_details("Name,Duration(us)\n", "k.csv")).find("holds no compute time"),
            std::string::npos);
  EXPECT_NE(message_of(formats::read_step_trace_time("Step,Free\n1,2\n", "s.csv")).find("Computing"),
            std::string::npos);
  EXPECT_NE(message_of(formats::read_step_trace_time("Step,Computing\n1,0\n", "s.csv")).find("holds no compute time"),
            std::string::npos);
}

}  // namespace
}  // namespace tidemark
