#include "planner/decide/gaps/load_tree.h"

#include <gtest/gtest.h>

#include <random>

namespace tidemark::decide::gaps {
namespace {

TEST(LoadTree, AgreesWithAnArray) {
  std::mt19937 random(11);
  for (const std::size_t n : {1U, 2U, 7U, 64U, 301U}) {
    std::vector<Bytes> values(n);
    for (Bytes& v : values) v = static_cast<Bytes>(random() % 1000);
    LoadTree tree(values);
    for (int i = 0; i < 400; ++i) {
      auto a = static_cast<std::int32_t>(random() % n), b = static_cast<std::int32_t>(random() % (n + 1));
      if (a > b) std::swap(a, b);
      const Bytes change = static_cast<Bytes>(random() % 2001) - 1000;
      tree.add(a, b, change);
      for (std::int32_t t = a; t < b; ++t) values[static_cast<std::size_t>(t)] += change;
      const auto top = std::max_element(values.begin(), values.end());
      ASSERT_EQ(tree.max(), *top);
      ASSERT_EQ(tree.argmax(), top - values.begin());
      if (a < b) {
        ASSERT_EQ(tree.max(a, b), *std::max_element(values.begin() + a, values.begin() + b));
      }
    }
    tree.reset(values);
    EXPECT_EQ(tree.max(), *std::max_element(values.begin(), values.end()));
  }
}

}  // namespace
}  // namespace tidemark::decide::gaps
