// Tables of buffers as a packer sees them: columns, gaps, what no packing could meet, and what an answer is worth.

#include "integrations/formats/interval_problem.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <unordered_map>

#include "integrations/formats/csv_table.h"
#include "integrations/formats/name_index.h"
#include "integrations/formats/pack_picture.h"
#include "integrations/formats/pack_report.h"
#include "integrations/formats/pack_verdict.h"
#include "planner/layout/check_packing.h"

namespace tidemark {
namespace {

using Row = formats::IntervalTable::Row;
using Gap = formats::IntervalTable::Gap;

formats::IntervalTable table_of(const std::string& text) {
  Result<formats::IntervalTable> table = formats::read_minimalloc_csv(text, "f.csv");
  EXPECT_TRUE(table.ok()) << table.error().message;
  return table ? std::move(table).value() : formats::IntervalTable{};
}

formats::IntervalProblem good_problem(const formats::IntervalTable& table, const formats::IntervalRules& rules = {}) {
  Result<formats::IntervalProblem> problem = formats::problem_of(table, rules, "f.csv");
  EXPECT_TRUE(problem.ok()) << problem.error().message;
  return problem ? std::move(problem).value() : formats::IntervalProblem{};
}

/// What is said of a table, or of its problem.
std::string refusal(const std::string& text, const formats::IntervalRules& rules = {}) {
  const Result<formats::IntervalTable> table = formats::read_minimalloc_csv(text, "f.csv");
  if (!table) return table.error().message;
  const Result<formats::IntervalProblem> problem = formats::problem_of(table.value(), rules, "f.csv");
  return problem ? "taken" : problem.error().message;
}

// ---- columns --------------------------------------------------------------------------------------------------------

TEST(IntervalTable, EveryColumn) {
  const formats::IntervalTable table = table_of(
      "apart,gaps,fixed,group,hint,offset,alignment,size,end,begin,buffer_id\n"
      "b c,2-3 5-5@0:4,,,64,0,8,16,9,0,a\n"
      ",,32,g,,32,,4,9,9,b\n"
      "a,,32,g,,,,4,9,1,c\n");
  EXPECT_EQ(
      table.rows,
      (std::vector<Row>{
          {.id = "a", .line = 2, .lower = 0, .upper = 10, .bytes = 16, .alignment_bytes = 8, .hint = 64, .offset = 0},
          {.id = "b", .line = 3, .lower = 9, .upper = 10, .bytes = 4, .offset = 32, .fixed = 32, .group = 0},
          {.id = "c", .line = 4, .lower = 1, .upper = 10, .bytes = 4, .fixed = 32, .group = 0}}));
  EXPECT_EQ(table.gaps, (std::vector<Gap>{{.row = 0, .lower = 2, .upper = 4},
                                          {.row = 0, .lower = 5, .upper = 6, .window_begin = 0, .window_end = 4}}));
  EXPECT_EQ(table.groups, std::vector<std::string>{"g"});
  EXPECT_EQ(table.apart, (std::vector<std::pair<std::int32_t, std::int32_t>>{{0, 1}, {0, 2}}));
  EXPECT_TRUE(table.notes.empty());
}

TEST(IntervalTable, EndCountsWhateverTheBeginIsCalled) {
  EXPECT_EQ(table_of("id,lower,end,size\na,0,3,1\n").rows[0].upper, 4);
  EXPECT_EQ(table_of("id,start,upper,size\na,0,3,1\n").rows[0].upper, 3);
  EXPECT_EQ(refusal("id,start,lower,upper,size\n"), "f.csv:1: columns 'lower' and 'start' say the same; drop one");
  EXPECT_EQ(refusal("id,start,upper,size,gaps,gaps\n"), "f.csv:1: column 'gaps' is there twice");
  EXPECT_EQ(refusal("id,lower,uper,size\n"), "f.csv:1: there is no column 'upper'; is it 'uper'?");
  EXPECT_EQ(refusal("# a\n\nid,lower,upper\n"), "f.csv:3: there is no column 'size'");
}

TEST(IntervalTable, WrongGaps) {
  const auto wrong = [](const std::string& gaps) {
    return refusal("id,lower,upper,size,gaps\na,2,9,8," + gaps + "\n");
  };
  EXPECT_EQ(wrong("2-9"), "taken");
  EXPECT_EQ(wrong(" 6-9@0:8\t2-6@7:8 "), "taken");
  const std::string how = " is not understood; write 3-7, or 3-7@0:512 where bytes 0 to 512 stay";
  for (const std::string gap : {"3", "-", "3-", "-3", "3-x", "3-4-5", "3_4", "3-99999999999999999999", "@0:4"})
    EXPECT_EQ(wrong(gap), "f.csv:2: gap '" + gap + "'" + how);
  EXPECT_EQ(wrong("4-4"), "f.csv:2: gap '4-4' is empty; its end must be behind its begin");
  EXPECT_EQ(wrong("1-4"), "f.csv:2: gap '1-4' leaves the life of the buffer, 2 to 9");
  EXPECT_EQ(wrong("8-10"), "f.csv:2: gap '8-10' leaves the life of the buffer, 2 to 9");
  EXPECT_EQ(wrong("3-4@0:9"), "f.csv:2: gap '3-4@0:9' keeps bytes that are not there; they must be some of 0 to 8");
  EXPECT_EQ(wrong("3-4@4:4"), "f.csv:2: gap '3-4@4:4' keeps bytes that are not there; they must be some of 0 to 8");
  for (const std::string gap : {"3-4@", "3-4@4", "3-4@0:4@5", "3-4@-1:4"})
    EXPECT_EQ(wrong(gap), "f.csv:2: gap '" + gap + "' is not understood; the bytes that stay are written like @0:512");
  EXPECT_EQ(wrong("5-8 3-6"), "f.csv:2: two gaps hold time 5; they must not meet");
  EXPECT_EQ(refusal("id,start,end,size,gaps\na,2,9,8,8-10\n"),
            "f.csv:2: gap '8-10' leaves the life of the buffer, 2 to 9");
}

TEST(IntervalTable, WrongNames) {
  const std::string head = "id,lower,upper,size,apart\nbuffer1,0,1,1,\n";
  EXPECT_EQ(refusal(head + "b,0,1,1,bufer1\n"), "f.csv:3: apart names 'bufer1', which is no id; is it 'buffer1'?");
  EXPECT_EQ(refusal(head + "b,0,1,1,b\n"), "f.csv:3: apart names 'b', the buffer itself");
  EXPECT_EQ(refusal(head + "buffer1,0,1,1,\n"), "f.csv:3: id 'buffer1' is there twice, first in line 2");
  EXPECT_EQ(refusal(std::string("id,lower,upper,size\na,0,1\0,1\n", 30)),
            "f.csv:2: there is a NUL byte; a table is UTF-8 text without any");
}

TEST(NameIndex, NumbersAMillionNames) {
  std::mt19937 random(3);
  std::vector<std::string> names(50'000);
  for (std::string& name : names) name = std::to_string(random() % 40'000);
  formats::NameIndex index;
  std::unordered_map<std::string, std::int32_t> twin;
  for (const std::string& name : names) {
    const auto [at, is_new] = twin.try_emplace(name, static_cast<std::int32_t>(twin.size()));
    const formats::NameIndex::Added added = index.add(name);
    ASSERT_EQ(added.number, at->second);
    ASSERT_EQ(added.is_new, is_new);
    ASSERT_EQ(index.find(name), at->second);
  }
  EXPECT_EQ(index.names().size(), twin.size());
  EXPECT_EQ(index.find("x"), std::nullopt);
  EXPECT_EQ(formats::NameIndex().find("x"), std::nullopt);
}

TEST(WithColumn, KeepsTheRest) {
  const std::vector<std::int64_t> numbers = {7, 1'000'000'000'000};
  EXPECT_EQ(formats::with_column("id,size\na,1\nb,2", "offset", numbers), "id,size,offset\na,1,7\nb,2,1000000000000");
  EXPECT_EQ(formats::with_column("\xef\xbb\xbf# c\r\n\r\n id , size \r\n a,1 \r\n#x\r\n\"b,\"\"c\",2\r\n \r\n",
                                 "offset", numbers),
            "\xef\xbb\xbf# c\r\n\r\n id , size,offset \r\n a,1,7 \r\n#x\r\n\"b,\"\"c\",2,1000000000000\r\n \r\n");
  EXPECT_EQ(formats::with_column("id,offset,size\n\"a,b\", 4 ,1\n\"c\" ,\"5,\",2\n", "offset", numbers),
            "id,offset,size\n\"a,b\",7,1\n\"c\" ,1000000000000,2\n");
  EXPECT_EQ(formats::with_column("size,offset\n1,\n2,\n", "offset", numbers), "size,offset\n1,7\n2,1000000000000\n");
}

// ---- problems -------------------------------------------------------------------------------------------------------

TEST(IntervalProblem, TimesBecomeTheirOrder) {
  const formats::IntervalProblem plain =
      good_problem(table_of("id,lower,upper,size\na,0,4611686018427387904,3\nb,5,1000000000000,4\n"));
  EXPECT_EQ(plain.problem.items, (std::vector<layout::PackItem>{{0, 3, 3}, {1, 2, 4}}));
  EXPECT_EQ(plain.times, (std::vector<std::int64_t>{0, 5, 1'000'000'000'000, std::int64_t{1} << 62}));
  EXPECT_TRUE(plain.problem.plain());
}

TEST(IntervalProblem, GapsAreStaysOfOneBlock) {
  const formats::IntervalTable table = table_of(
      "id,lower,upper,size,gaps,fixed,group,apart\n"
      "a,0,10,1000,2-4 6-8@600:700,4096,,b\n"
      "b,0,10,8,,,g,\nc,20,30,8,,,g,\nd,0,10,8,0-10,512,,\n");
  const formats::IntervalProblem problem = good_problem(table, {.alignment_bytes = 512});
  EXPECT_EQ(problem.row_of, (std::vector<std::int32_t>{0, 0, 0, 0, 1, 2}));
  EXPECT_EQ(problem.problem.items, (std::vector<layout::PackItem>{
                                       {0, 1, 1000}, {2, 3, 1000}, {3, 4, 188}, {4, 5, 1000}, {0, 5, 8}, {6, 7, 8}}));
  EXPECT_EQ(problem.problem.shift, (std::vector<Bytes>{0, 0, 512, 0, 0, 0}));
  EXPECT_EQ(problem.problem.block_of, (std::vector<std::int32_t>{0, 0, 0, 0, 4, 4}));
  EXPECT_EQ(problem.problem.fixed_offset,
            (std::vector<Bytes>{4096, 4096, 4608, 4096, layout::kAnywhere, layout::kAnywhere}));
  EXPECT_EQ(problem.problem.apart.size(), 4U);
  const layout::Packing packing = layout::find_packer("auto")->pack(problem.problem, {.work = 100}).packing;
  EXPECT_EQ(formats::addresses_of(table, problem, packing, {.alignment_bytes = 512}),
            (std::vector<Bytes>{4096, 0, 0, 512}));
}

TEST(IntervalProblem, OffsetsAreFixedUnlessRepacked) {
  const std::string text = "id,lower,upper,size,offset\na,0,4,8,8\nb,2,6,8,16\n";
  const formats::IntervalTable table = table_of(text);
  const formats::IntervalProblem fixed = good_problem(table);
  const std::optional<layout::Packing> given = formats::given_packing(fixed);
  ASSERT_TRUE(given);
  EXPECT_EQ(given->height_bytes, 24);
  const formats::IntervalProblem free = good_problem(table, {.repack = true});
  EXPECT_FALSE(formats::given_packing(free));
  EXPECT_EQ(free.problem.hint, (std::vector<Bytes>{8, 16}));
  EXPECT_TRUE(free.problem.fixed_offset.empty());
  EXPECT_EQ(refusal("id,lower,upper,size,offset,fixed\na,0,4,8,8,16\n"),
            "f.csv:2: fixed is 16 and offset 8; both say where 'a' must lie");
  EXPECT_FALSE(formats::given_packing(good_problem(table_of("id,lower,upper,size,offset\na,0,4,8,8\nb,2,6,8,\n"))));
}

TEST(IntervalProblem, WhatIsAwayAllItsLifeStillSaysWhereItsGroupLies) {
  const formats::IntervalTable table = table_of(
      "id,lower,upper,size,gaps,group,fixed\n"
      "away,5,6,4,5-6,g,8\n"
      "here,1,2,2,,g,\n"
      "also,3,4,2,3-4,h,\n"
      "there,3,4,2,,h,\n"
      "alone,3,4,2,3-4,,\n");
  const formats::IntervalProblem problem = good_problem(table);
  EXPECT_EQ(problem.problem.fixed_offset, (std::vector<Bytes>{8, layout::kAnywhere}));
  EXPECT_EQ(formats::addresses_of(table, problem, {.offsets = {8, 16}, .height_bytes = 18}, {}),
            (std::vector<Bytes>{8, 8, 16, 16, 0}));
  EXPECT_EQ(refusal("id,lower,upper,size,gaps,group,fixed\n"
                    "away,5,6,4,5-6,g,8\n"
                    "here,1,2,2,,g,16\n"),
            "f.csv:3: buffers 'away' (line 2) and 'here' (line 3) are fixed to different addresses of one group");
}

TEST(IntervalProblem, ContradictionsNameBuffersAndLines) {
  const std::string head = "id,lower,upper,size,alignment,fixed,group,apart\n";
  const std::string shared = "f.csv:4: buffers 'a' (line 3) and 'b' (line 4) ";
  // Some free buffer, so that addresses are part of a problem, and none, so that they are a packing.
  EXPECT_EQ(refusal(head + "x,0,1,1,,,,\na,0,4,8,,0,,\nb,2,6,8,,4,,\n"),
            shared + "are fixed to bytes that they would share");
  EXPECT_EQ(refusal(head + "x,8,9,1,,0,,\na,0,4,8,,0,,\nb,2,6,8,,4,,\n"), shared + "live together and share bytes");
  EXPECT_EQ(refusal(head + "x,0,1,1,,,,\na,0,1,1,,0,g,\nb,2,6,8,,4,g,\n"),
            shared + "are fixed to different addresses of one group");
  EXPECT_EQ(refusal(head + "x,0,1,1,,,,\na,0,1,1,,,g,\nb,2,6,8,,,g,a\n"), shared + "are to be apart and in one block");
  EXPECT_EQ(refusal(head + "x,0,1,1,,,,\na,0,1,1,,0,,\nb,2,6,8,,0,,a\n"),
            shared + "are to be apart and fixed to bytes that they would share");
  EXPECT_EQ(refusal(head + "x,0,1,1,,,,\na,0,1,1,8,4,,\n"),
            "f.csv:3: buffer 'a' (line 3) is fixed to an address that is no multiple of 8");
  EXPECT_EQ(refusal(head + "x,0,1,1,,,,\na,0,1,1,,4,,\n", {.alignment_bytes = 512}),
            "f.csv:3: buffer 'a' (line 3) is fixed to an address that is no multiple of 512");
  EXPECT_EQ(refusal(head + "x,0,1,1,,0,,\na,0,1,1,8,4,,\n"),
            "f.csv:3: buffer 'a' (line 3) is misaligned, its block at 4, no multiple of 8");
  EXPECT_EQ(refusal(head + "x,0,1,1,1099511627775,,g,\na,0,1,1,1099511627776,,g,\n").substr(0, 27),
            "f.csv:3: buffer 'a' (line 3");
  EXPECT_EQ(refusal(head + "x,0,1,1,1099511627777,,,\n").substr(0, 18), "f.csv:2: alignment");
}

TEST(IntervalProblem, FixedBuffersContradictExactlyWhereTwoShareBytes) {
  std::mt19937 random(23);
  int refused = 0;
  for (int round = 0; round < 500; ++round) {
    std::string text = "id,lower,upper,size,fixed,group\nfree,0,1,1,,\n";
    struct Placed {
      unsigned lower, upper, begin, end, group;
    };
    std::vector<Placed> placed;
    const auto below = [&](unsigned most) { return static_cast<unsigned>(random() % most); };
    const unsigned count = 2 + below(6);
    for (unsigned i = 0; i < count; ++i) {
      const unsigned lower = below(20), begin = below(30), group = below(3);
      // A group is fixed to one address.
      placed.push_back({lower, lower + 1 + below(6), group > 0 ? 7 * group : begin, 0, group});
      Placed& p = placed.back();
      p.end = p.begin + 1 + below(9);
      text += "b" + std::to_string(i) + "," + std::to_string(p.lower) + "," + std::to_string(p.upper) + "," +
              std::to_string(p.end - p.begin) + "," + std::to_string(p.begin) + "," +
              (group > 0 ? std::to_string(group) : "") + "\n";
    }
    bool conflict = false;
    for (const Placed& a : placed)
      for (const Placed& b : placed)
        conflict |= &a != &b && a.lower < b.upper && b.lower < a.upper && a.begin < b.end && b.begin < a.end &&
                    (a.group == 0 || a.group != b.group);
    EXPECT_EQ(refusal(text).find("are fixed to bytes that they would share") != std::string::npos, conflict) << text;
    refused += conflict ? 1 : 0;
  }
  EXPECT_GT(refused, 50);
  EXPECT_LT(refused, 450);
}

/// Bytes that a row holds at a time, said of the table alone.
std::pair<Bytes, Bytes> held_at(const formats::IntervalTable& table, std::int32_t number, std::int64_t time) {
  const Row& row = table.rows[static_cast<std::size_t>(number)];
  if (time < row.lower || time >= row.upper) return {0, 0};
  for (const Gap& gap : table.gaps)
    if (gap.row == number && gap.lower <= time && time < gap.upper) return {gap.window_begin, gap.window_end};
  return {0, row.bytes};
}

std::string random_table(std::mt19937& random) {
  const auto draw = [&](int least, int most) {
    return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1));
  };
  std::string text = "id,lower,upper,size,alignment,gaps,group,apart\n";
  const int rows = draw(1, 12);
  for (int r = 0; r < rows; ++r) {
    const int lower = draw(0, 10), upper = lower + draw(1, 10), bytes = draw(1, 9);
    text += "b" + std::to_string(r) + "," + std::to_string(lower) + "," + std::to_string(upper) + "," +
            std::to_string(bytes) + "," + std::to_string(1 << draw(0, 2)) + ",";
    for (int time = lower; draw(0, 1) == 1 && time < upper; time += 3) {
      text += std::to_string(time) + "-" + std::to_string(std::min(time + draw(1, 2), upper));
      const int from = draw(0, bytes - 1);
      if (draw(0, 1) == 1) text += "@" + std::to_string(from) + ":" + std::to_string(draw(from + 1, bytes));
      text += " ";
    }
    const bool grouped = draw(0, 3) == 0;
    text += std::string(",") + (grouped ? "g" : "") + ",";
    if (!grouped && r > 0 && draw(0, 3) == 0) text += "b" + std::to_string(draw(0, r - 1));
    text += "\n";
  }
  return text;
}

/// The rules of the format, pair by pair, moment by moment, without the problem in between.
void expect_sound(const formats::IntervalTable& table, const std::vector<Bytes>& at, Bytes height) {
  for (std::int32_t a = 0; a < std::ssize(table.rows); ++a) {
    const Row& row = table.rows[static_cast<std::size_t>(a)];
    EXPECT_EQ(at[static_cast<std::size_t>(a)] % row.alignment_bytes, 0) << row.id;
    for (std::int32_t b = 0; b < a; ++b) {
      const Row& other = table.rows[static_cast<std::size_t>(b)];
      const Bytes place_a = at[static_cast<std::size_t>(a)], place_b = at[static_cast<std::size_t>(b)];
      if (row.group >= 0 && row.group == other.group) continue;
      for (std::int64_t time = 0; time < 22; ++time) {
        const auto [from_a, to_a] = held_at(table, a, time);
        const auto [from_b, to_b] = held_at(table, b, time);
        if (from_a == to_a || from_b == to_b) continue;
        EXPECT_LE(place_a + to_a, height);
        EXPECT_TRUE(place_a + to_a <= place_b + from_b || place_b + to_b <= place_a + from_a)
            << row.id << " and " << other.id << " at " << time;
      }
    }
  }
}

TEST(IntervalProblem, PackingsKeepTheRulesOfTheFormat) {
  std::mt19937 random(17);
  int gaps = 0, taken = 0;
  for (int round = 0; round < 300; ++round) {
    const std::string text = random_table(random);
    const Result<formats::IntervalTable> table = formats::read_minimalloc_csv(text, "f");
    ASSERT_TRUE(table) << table.error().message << "\n" << text;
    const formats::IntervalRules rules{.alignment_bytes = round % 2 == 0 ? 1 : 3};
    const Result<formats::IntervalProblem> problem = formats::problem_of(table.value(), rules, "f");
    ASSERT_TRUE(problem) << problem.error().message << "\n" << text;
    const layout::Packing packing = layout::find_packer("auto")->pack(problem.value().problem, {.work = 100}).packing;
    const std::vector<Bytes> at = formats::addresses_of(table.value(), problem.value(), packing, rules);
    expect_sound(table.value(), at, packing.height_bytes);
    for (std::size_t r = 0; r < at.size(); ++r) {
      if (table.value().rows[r].group >= 0) {
        EXPECT_EQ(at[r] % rules.alignment_bytes, 0);
      }
    }
    ASSERT_FALSE(HasFailure()) << text;
    gaps += static_cast<int>(table.value().gaps.size());
    taken += static_cast<int>(problem.value().problem.apart.size());
    // What was written reads as a packing that somebody gave, of the same height, and holds.
    const Result<formats::IntervalTable> again =
        formats::read_minimalloc_csv(formats::with_column(text, "offset", at), "f");
    ASSERT_TRUE(again) << again.error().message;
    const Result<formats::IntervalProblem> checked = formats::problem_of(again.value(), rules, "f");
    ASSERT_TRUE(checked) << checked.error().message << "\n" << text;
    EXPECT_EQ(formats::given_packing(checked.value()).value_or(layout::Packing{}).height_bytes, packing.height_bytes);
  }
  EXPECT_GT(gaps, 300);
  EXPECT_GT(taken, 100);
}

// ---- verdicts -------------------------------------------------------------------------------------------------------

struct Judged {
  formats::IntervalTable table;
  formats::IntervalProblem problem;
  layout::PackAnswer answer;
  formats::PackVerdict verdict;
};

Judged judged(const std::string& text, std::optional<Bytes> capacity) {
  Judged j{.table = table_of(text)};
  j.problem = good_problem(j.table);
  j.answer = layout::find_packer("auto")->pack(j.problem.problem, {.work = 1000, .enough_bytes = capacity.value_or(0)});
  j.verdict = formats::judge(j.problem, j.answer, capacity);
  return j;
}

TEST(PackVerdict, NamesWhatCannotFit) {
  const std::string text = "id,lower,upper,size,group\na,0,9,4,\nb,2,5,6,\nc,4,8,5,g\nd,4,8,3,g\ne,0,2,7,\n";
  EXPECT_EQ(judged(text, std::nullopt).verdict.word, formats::PackWord::optimal);
  EXPECT_TRUE(judged(text, 15).verdict.fits);
  const formats::PackVerdict over = judged(text, 14).verdict;
  EXPECT_EQ(over.word, formats::PackWord::infeasible);
  EXPECT_FALSE(over.fits);
  EXPECT_EQ(over.cannot_fit, (std::vector<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(over.together_bytes, 15);  // those of a group once
  EXPECT_EQ(over.time, 4);
  const formats::PackVerdict far = judged(text, 5).verdict;
  EXPECT_EQ(far.cannot_fit, std::vector<std::int32_t>{1});
  EXPECT_EQ(far.together_bytes, 6);
}

TEST(PackVerdict, FixedBeyondTheCapacityIsNamed) {
  const formats::PackVerdict verdict = judged("id,lower,upper,size,fixed\na,0,9,4,\nb,2,5,6,100\n", 50).verdict;
  EXPECT_EQ(verdict.word, formats::PackWord::infeasible);
  EXPECT_EQ(verdict.cannot_fit, std::vector<std::int32_t>{1});
  EXPECT_EQ(verdict.together_bytes, 0);
}

TEST(PackVerdict, WordsByExcess) {
  const formats::IntervalTable table = table_of("id,lower,upper,size\na,0,9,1000\n");
  const formats::IntervalProblem problem = good_problem(table);
  const auto word = [&](Bytes height, std::optional<Bytes> capacity) {
    layout::PackAnswer answer{.bound_bytes = 1000};
    answer.packing.height_bytes = height;
    return formats::judge(problem, answer, capacity);
  };
  EXPECT_EQ(word(1000, std::nullopt).word, formats::PackWord::optimal);
  EXPECT_EQ(word(1010, std::nullopt).word, formats::PackWord::within);
  EXPECT_EQ(word(1011, std::nullopt).word, formats::PackWord::best_found);
  EXPECT_EQ(word(1011, 1010).word, formats::PackWord::best_found);  // more time might do
  EXPECT_FALSE(word(1011, 1010).fits);
  EXPECT_EQ(word(1011, 999).word, formats::PackWord::infeasible);
}

TEST(PackReport, TextOfManyBuffers) {
  std::string text = "id,lower,upper,size\n";
  for (int i = 0; i < 1500; ++i)
    text += "b" + std::to_string(i) + "," + std::to_string(i / 2) + "," + std::to_string(i / 2 + 3) + ",100\n";
  const Judged j = judged(text, 599);
  const formats::PackReport report{.file = "f",
                                   .table = &j.table,
                                   .problem = &j.problem,
                                   .answer = &j.answer,
                                   .verdict = j.verdict,
                                   .capacity_bytes = 599};
  EXPECT_NE(formats::pack_text(report).find(
                "infeasible: 6 buffers need 600 B at time 2, 1 B more than the capacity: 'b0', 'b1', "),
            std::string::npos)
      << formats::pack_text(report);
  const std::string picture = formats::pack_picture(j.table, j.problem, j.answer.packing);
  EXPECT_NE(picture.find("tenths of a cell in use"), std::string::npos);
  EXPECT_NE(picture.find("         0 B |####"), std::string::npos) << picture;
}

TEST(PackPicture, LettersAndTheirIds) {
  const Judged j = judged("id,lower,upper,size,gaps,group\na,0,4,2,2-3,\nb,0,4,1,,g\nc,2,8,1,,g\n", std::nullopt);
  ASSERT_EQ(j.answer.packing.height_bytes, 3);
  const std::string picture = formats::pack_picture(j.table, j.problem, j.answer.packing);
  EXPECT_NE(picture.find("\na 'a'  b 'b'  c 'c'\n"), std::string::npos) << picture;
  EXPECT_EQ(picture.find('!'), std::string::npos) << picture;  // a group shares its bytes on purpose
  EXPECT_NE(picture.find(std::string(30, 'a') + std::string(15, '.') + std::string(15, 'a') + std::string(60, '.')),
            std::string::npos)
      << picture;
  EXPECT_NE(picture.find(std::string(30, 'b') + std::string(30, '#') + std::string(60, 'c')), std::string::npos)
      << picture;
}

}  // namespace
}  // namespace tidemark
