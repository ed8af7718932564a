#include "integrations/ci/content_hash.h"

#include <gtest/gtest.h>

namespace tidemark {
namespace {

// Test vectors of the FNV draft (draft-eastlake-fnv, appendix).
TEST(CiContentHash, IsFnv1a64) {
  EXPECT_EQ(ci::hash_text(ci::fnv1a64("")), "cbf29ce484222325");
  EXPECT_EQ(ci::hash_text(ci::fnv1a64("a")), "af63dc4c8601ec8c");
  EXPECT_EQ(ci::hash_text(ci::fnv1a64("foobar")), "85944171f73967e8");
}

TEST(CiContentHash, ReadsWhatItWrites) {
  EXPECT_EQ(ci::parse_hash("af63dc4c8601ec8c"), ci::fnv1a64("a"));
  EXPECT_EQ(ci::parse_hash("0000000000000001"), 1U);
  for (const char* text : {"", "1", "AF63DC4C8601EC8C", "0x00000000000001", "af63dc4c8601ec8cc", "af63dc4c8601ec8g"})
    EXPECT_FALSE(ci::parse_hash(text).has_value()) << text;
}

}  // namespace
}  // namespace tidemark
