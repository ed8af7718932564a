#include "integrations/ci/safe_text.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace tidemark {
namespace {

using namespace std::string_view_literals;

TEST(CiSafeText, IsUtf8) {
  EXPECT_EQ(ci::with_replacements("a\xc3\xa4\xf0\x9f\x92\xa5"), "a\xc3\xa4\xf0\x9f\x92\xa5");
  EXPECT_EQ(ci::with_replacements("\xff"), "\xef\xbf\xbd");
  EXPECT_EQ(ci::with_replacements("\xc0\xaf"), "\xef\xbf\xbd\xef\xbf\xbd");                  // overlong
  EXPECT_EQ(ci::with_replacements("\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");  // surrogate
  EXPECT_EQ(ci::with_replacements("\xf4\x90\x80\x80").size(), 12U);                          // beyond U+10FFFF
  EXPECT_EQ(ci::with_replacements("\xe2\x82"), "\xef\xbf\xbd\xef\xbf\xbd");                  // cut short
}

TEST(CiSafeText, XmlHasNoMarkupAndNoControls) {
  EXPECT_EQ(ci::xml_text("<a b=\"c\" d='e'>&]]>"), "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;]]&gt;");
  EXPECT_EQ(ci::xml_text("a\tb\nc\r"), "a&#9;b&#10;c ");
  for (const std::string_view bad : {"\0"sv, "\x1b"sv, "\x7f"sv, "\xc2\x85"sv, "\xef\xbf\xbe"sv, "\xef\xbf\xbf"sv,
                                     "\xef\xb7\x90"sv, "\xf0\x9f\xbf\xbf"sv, "\xff"sv})
    EXPECT_EQ(ci::xml_text(bad), "\xef\xbf\xbd");
}

TEST(CiSafeText, MarkdownIsOneLineOfText) {
  EXPECT_EQ(ci::markdown_text("a|b`c`*d*<e>\n[f]"), "a\\|b\\`c\\`\\*d\\*\\<e\\> \\[f\\]");
  EXPECT_EQ(ci::markdown_text("# x"), "\\# x");
  EXPECT_EQ(ci::markdown_text("12. x"), "12\\. x");
  EXPECT_EQ(ci::markdown_text("x 1. - y"), "x 1. - y");
  EXPECT_EQ(ci::markdown_text("  \n 1. x"), "1\\. x");
}

TEST(CiSafeText, GitHubCommandsAreOneLine) {
  EXPECT_EQ(ci::github_message("100%\r\na:b,c"), "100%25%0D%0Aa:b,c");
  EXPECT_EQ(ci::github_property("100%\r\na:b,c"), "100%25%0D%0Aa%3Ab%2Cc");
}

TEST(CiSafeText, PathsAreUris) {
  EXPECT_EQ(ci::uri_of_path("models/x y.yaml"), "models/x%20y.yaml");
  EXPECT_EQ(ci::uri_of_path("a:b?c#d%e"), "a%3Ab%3Fc%23d%25e");
  EXPECT_EQ(ci::uri_of_path("/abs/\xc3\xa4"), "file:///abs/%C3%A4");
}

}  // namespace
}  // namespace tidemark
