#include "device/cpu_list.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace tidemark {
namespace {

CpuList read(std::string_view text) {
  const Result<CpuList> list = read_cpu_list(text, "list");
  EXPECT_TRUE(list.ok()) << text << ": " << (list ? "" : list.error().message);
  return list ? list.value() : CpuList{-1};
}

TEST(CpuLists, AreReadAsTheKernelWritesThem) {
  EXPECT_EQ(read("0-3,8,10-11\n"), (CpuList{0, 1, 2, 3, 8, 10, 11}));
  EXPECT_EQ(read("5"), CpuList{5});
  EXPECT_EQ(read("\n"), CpuList{}) << "a node of memory alone";
  EXPECT_EQ(read(""), CpuList{});
  EXPECT_EQ(read("\t3,1-2,2\n"), (CpuList{1, 2, 3})) << "sorted, each once";
  EXPECT_EQ(read("65535").size(), 1U);
}

TEST(CpuLists, ThatAreNoneAreRefusedWithTheirPlace) {
  for (const char* const text : {"a", "1-", "-1", "3-1", "1,,2", "1,", ",1", "1-2-3", "65536", "99999999999", "0x1",
                                 "1 2", "1;2", "0-65535,0-65535,0-65535"}) {
    const Result<CpuList> list = read_cpu_list(text, "cpu/online:1");
    ASSERT_FALSE(list.ok()) << text;
    EXPECT_EQ(list.error().code, Error::Code::bad_input);
    EXPECT_TRUE(list.error().message.starts_with("cpu/online:1: ")) << list.error().message;
    EXPECT_NE(list.error().message.find("would be right"), std::string::npos);
  }
  EXPECT_EQ(read_cpu_list("\x1b[31m", "x").error().message.find('\x1b'), std::string::npos)
      << "no commands to a terminal";
}

/// Against sets, and back from the text.
TEST(CpuLists, SurviveTheirTextAndAgreeWithSets) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::set<int> a, b;
    for (int i = 0; i < round % 40; ++i) {
      a.insert(static_cast<int>(random() % 64));
      b.insert(static_cast<int>(random() % 64));
    }
    const CpuList one(a.begin(), a.end()), other(b.begin(), b.end());
    EXPECT_EQ(one.empty() ? CpuList{} : read(text_of_list(one)), one);
    std::set<int> both, either(a), rest;
    for (const int n : a) (b.contains(n) ? both : rest).insert(n);
    either.insert(b.begin(), b.end());
    EXPECT_EQ(in_both(one, other), CpuList(both.begin(), both.end()));
    EXPECT_EQ(in_either(one, other), CpuList(either.begin(), either.end()));
    EXPECT_EQ(in_first_only(one, other), CpuList(rest.begin(), rest.end()));
    for (int n = 0; n < 64; ++n) EXPECT_EQ(holds(one, n), a.contains(n));
  }
  EXPECT_EQ(text_of_list({}), "none");
  EXPECT_EQ(text_of_list({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
}

}  // namespace
}  // namespace tidemark
