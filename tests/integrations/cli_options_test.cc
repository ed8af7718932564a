// The readers of option values, without a process.

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "integrations/cli/job_request.h"
#include "integrations/cli/options.h"
#include "integrations/cli/progress.h"
#include "integrations/cli/refusal.h"
#include "integrations/run/host_room.h"
#include "tests/support/json_text.h"

namespace tidemark::cli {
namespace {

TEST(Ranks, ListsAndRanges) {
  EXPECT_EQ(parse_ranks("3").value(), (std::vector<std::int32_t>{3}));
  EXPECT_EQ(parse_ranks("0-3,15").value(), (std::vector<std::int32_t>{0, 1, 2, 3, 15}));
  EXPECT_EQ(parse_ranks("5,1,1-2").value(), (std::vector<std::int32_t>{1, 2, 5}));
  for (const char* bad : {"", ",", "1,", "1-", "-1", "2-1", "a", "1 2", "0x1", "1-2-3", "70000", "99999999999"})
    EXPECT_FALSE(parse_ranks(bad).ok()) << bad;
}

TEST(ExpertLoad, NumberOrQuantile) {
  EXPECT_EQ(parse_imbalance("1.5").value().load, 1.5);
  EXPECT_EQ(parse_imbalance("1e-2").value().load, 0.01);
  EXPECT_FALSE(parse_imbalance("1.5").value().quantile.has_value());
  EXPECT_DOUBLE_EQ(parse_imbalance("p99.9").value().quantile.value(), 0.999);
  EXPECT_FALSE(parse_imbalance("p99").value().load.has_value());
  for (const char* bad :
       {"", "p", "0", "-0", "-1", "nan", "inf", "-inf", "1e9", "1e999", "1.5x", "p0", "p100", "p-5", "pnan"})
    EXPECT_FALSE(parse_imbalance(bad).ok()) << bad;
}

TEST(MarginOption, SizeOrShare) {
  EXPECT_EQ(Margin{}.of(1000), 30);
  EXPECT_EQ(parse_margin("512MiB").value().of(kTiB), 512 * kMiB);
  EXPECT_EQ(parse_margin("5%").value().of(1000), 50);
  EXPECT_EQ(parse_margin("2.5 %").value().of(1000), 25);
  EXPECT_EQ(parse_margin("0%").value().of(kTiB), 0);
  for (const char* bad : {"", "%", "3", "-1%", "101%", "nan%", "5GB/s"}) EXPECT_FALSE(parse_margin(bad).ok()) << bad;
}

TEST(Numbers, WholeTextAndFinite) {
  EXPECT_EQ(parse_number("0.5").value(), 0.5);
  for (const char* bad : {"", " 1", "1 ", "+1", "1,5", "inf", "nan", "1e999"})
    EXPECT_FALSE(parse_number(bad).ok()) << bad;
}

/// Every remark looks for a near miss among all names there are.
TEST(ImportRemarks, EndAfterTwentyWithTheNumberOfTheOthers) {
  estimate::ImportedRun imported;
  const auto add = [&imported](int count) {
    for (int i = 0; i < count; ++i)
      imported.judged.push_back({.name = "nmu-layers",
                                 .place = "run.sh:" + std::to_string(i + 1),
                                 .standing = estimate::Standing::not_understood,
                                 .reason = estimate::kUnknownArgument});
  };
  add(20);
  imported.notes = {"one"};
  ASSERT_EQ(import_remarks(imported).size(), 21U);
  EXPECT_EQ(import_remarks(imported).front(),
            "warning: run.sh:1: --nmu-layers is not understood: unknown argument (did you mean --num-layers?)");
  EXPECT_EQ(import_remarks(imported).back(), "note: one");
  add(1);
  ASSERT_EQ(import_remarks(imported).size(), 22U);
  EXPECT_EQ(import_remarks(imported)[20], "warning: 1 more argument is not understood");
  add(4979);
  EXPECT_EQ(import_remarks(imported)[20], "warning: 4980 more arguments are not understood");
}

TEST(Refusals, AreOneLineAndOneObject) {
  EXPECT_TRUE(asks_for_json({"run", "x", "--format", "json"}));
  EXPECT_TRUE(asks_for_json({"--format=json"}));
  EXPECT_FALSE(asks_for_json({"run", "json", "--format"}));
  EXPECT_FALSE(asks_for_json({"run", "--format", "text", "json"}));
  EXPECT_EQ(one_line("a\nb\r"), "a b ");
  EXPECT_EQ(one_line("\x1b[31m\t\x7f \xc2\x9b"
                     "2J \xc2\xa0\xc3\xa9\xc2"),
            "?[31m?? ?2J \xc2\xa0\xc3\xa9\\xc2");
  EXPECT_EQ(log_line("::error::a\n::b"), "\\::error::a ::b");
  EXPECT_EQ(log_line(" ::x ##[y]"), " \\::x ##\\[y]");
  EXPECT_EQ(log_line("a ::b"), "a ::b");
  EXPECT_EQ(log_line("job\u202etxt\u2069 turns"), "job?txt? turns");
  const std::string quoted = refusal_json(bad_input("##[error]x"));
  EXPECT_EQ(quoted.find("##["), std::string::npos) << quoted;
  EXPECT_EQ(testing::parsed(quoted)["message"], "##[error]x");
  const auto json = testing::parsed(refusal_json(infeasible("no \"room\"\n\xff")));
  EXPECT_EQ(json["verdict"], "REFUSED");
  EXPECT_EQ(json["exit_status"], 1);
  EXPECT_EQ(json["kind"], "infeasible");
  EXPECT_EQ(json["message"], "no \"room\" \\xff");
  EXPECT_EQ(testing::parsed(refusal_json(internal_fault("x")))["exit_status"], 3);
}

plan::RankPlan rank_of(std::int32_t rank, Bytes device_bytes, Bytes pinned_bytes) {
  plan::RankPlan plan;
  plan.figures.rank = rank;
  plan.program.layout.arenas = {
      {.space = MemorySpace::device, .height_bytes = device_bytes},
      {.space = MemorySpace::host, .kind = Arena::Kind::pinned, .height_bytes = pinned_bytes}};
  return plan;
}

/// The machine's memory as an argument: no test can have a machine of every size.
TEST(HostRoom, LargestRankDecidesAndTheScaleThatFitsIsNamed) {
  std::vector<plan::RankPlan> ranks;
  ranks.push_back(rank_of(3, 10 * kGiB, 2 * kGiB));
  ranks.push_back(rank_of(5, 8 * kGiB, 8 * kGiB));
  EXPECT_TRUE(run::check_host_room(ranks, 1, {.available_bytes = 17 * kGiB}).ok());
  EXPECT_TRUE(run::check_host_room(ranks, 1, {.available_bytes = 16 * kGiB + 512 * kMiB}).ok());
  const Status close = run::check_host_room(ranks, 1, {.available_bytes = 16 * kGiB, .in_use_bytes = 3 * kMiB});
  ASSERT_FALSE(close.ok());
  EXPECT_EQ(close.error().code, Error::Code::infeasible);
  EXPECT_EQ(close.error().message,
            "rank 5 needs 16.00 GiB of this machine's memory at --scale 1: 8.00 GiB as device memory, 8.00 GiB pinned; "
            "16.00 GiB are available beside the 3.00 MiB in use for the plan, and 512.00 MiB stay free; --scale 1/2 "
            "would fit");
  const auto says = [&](std::int64_t scale, Bytes available, std::string_view text) {
    const Status status = run::check_host_room(ranks, scale, {.available_bytes = available});
    ASSERT_FALSE(status.ok()) << text;
    EXPECT_NE(status.error().message.find(text), std::string::npos) << status.error().message;
  };
  says(1, 1 * kGiB, "; --scale 1/32 would fit");
  says(8, 1 * kGiB, "at --scale 1/8: ");
  says(8, 1 * kGiB, "; --scale 1/32 would fit");
  says(1, 600 * kMiB, "; no --scale down to 1/64 would fit");
  says(64, 600 * kMiB, "; no --scale down to 1/64 would fit");
}

TEST(Progress, SharesAreDrawnWhereTheyGrowAndOnATerminalOnly) {
  for (const bool drawn : {false, true}) {
    ::testing::internal::CaptureStderr();
    {
      Progress::Clock::time_point now{};
      Progress progress("planning", drawn, [&] { return now; });
      progress.update_share(0.1);
      now += std::chrono::milliseconds(999);
      progress.update_share(0.2);  // work that is over within a second has no bar
      now += std::chrono::milliseconds(1);
      for (const double share : {0.25, 0.254, 0.2, -1.0, 7.0, 1.0}) progress.update_share(share);
    }
    const std::string text = ::testing::internal::GetCapturedStderr();
    const std::string wipe = "\r\x1b[K";
    EXPECT_EQ(text, drawn
                        ? wipe + progress_line("planning", 25, 100) + wipe + progress_line("planning", 100, 100) + wipe
                        : "");
  }
}

TEST(Progress, WhatIsWatchedIsDrawnBeforeAPartIsDone) {
  for (const bool drawn : {false, true}) {
    ::testing::internal::CaptureStderr();
    {
      Progress progress("planning", drawn);
      progress.watch(2);
      std::this_thread::sleep_for(std::chrono::milliseconds(drawn ? 2500 : 1200));
    }
    const std::string text = ::testing::internal::GetCapturedStderr();
    const std::string begin = "\r\x1b[K" + progress_line("planning", 0, 2) + ", ";
    EXPECT_EQ(text.substr(0, begin.size()), drawn ? begin : "");
    EXPECT_TRUE(!drawn || text.ends_with("\r\x1b[K")) << text;
  }
}

TEST(ProgressLine, KeepsItsWidth) {
  const std::size_t width = progress_line("planning", 0, 10).size();
  for (int done = 0; done <= 9; ++done) EXPECT_EQ(progress_line("planning", done, 10).size(), width);
  EXPECT_EQ(progress_line("x", 0, 2), "x [..............................] 0/2");
  EXPECT_EQ(progress_line("x", 1, 2), "x [###############...............] 1/2");
  EXPECT_EQ(progress_line("x", 2, 2), "x [##############################] 2/2");
}

}  // namespace
}  // namespace tidemark::cli
