// Texts that a YAML parser takes for documents without end, for trees without end, or for messages of several lines.

#include "integrations/formats/yaml_tree.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "integrations/formats/import_arguments.h"
#include "integrations/formats/import_yaml.h"
#include "tests/support/devices.h"

namespace tidemark {
namespace {

constexpr formats::YamlUse kUse = {.most_bytes = std::size_t{1} << 20,
                                   .what = "description",
                                   .invalid = "this is not valid YAML",
                                   .remedy = "write `key: value`"};

std::string error_of(std::string_view text) {
  const Result<std::shared_ptr<const formats::YamlNode>> tree = formats::read_yaml_tree(text, "f", kUse);
  return tree ? "" : tree.error().message;
}

/// The tree in one line, aliases written out.
std::string drawn(const formats::YamlNode& node) {
  if (node.is_empty()) return "~";
  if (node.is_scalar()) return node.text;
  std::string text;
  for (const auto& [key, value] : node.items)
    text += (text.empty() ? "" : ", ") + (key ? drawn(*key) + ": " : "") + drawn(*value);
  return node.is_map() ? "{" + text + "}" : "[" + text + "]";
}

std::string drawn(std::string_view text) {
  const Result<std::shared_ptr<const formats::YamlNode>> tree = formats::read_yaml_tree(text, "f", kUse);
  return tree ? drawn(*tree.value()) : tree.error().message;
}

TEST(YamlTree, KeepsKindsOrderAndLines) {
  EXPECT_EQ(drawn("b: 1\na: [x, ~, {k: v}]\nb:\n"), "{b: 1, a: [x, ~, {k: v}], b: ~}");
  const auto tree = formats::read_yaml_tree("a: 1\n\nb:\n  - c\n  - d\n", "f", kUse).value();
  EXPECT_EQ(tree->items[1].key->line, 3);
  EXPECT_EQ(tree->items[1].value->items[1].value->line, 5);
  EXPECT_EQ(tree->find("b"), tree->items[1].value.get());
  EXPECT_EQ(tree->find("c"), nullptr);
  EXPECT_EQ(drawn(""), "~");
}

TEST(YamlTree, ACommaAloneEnds) {
  EXPECT_EQ(error_of(","), "f:1: ',' belongs to no value of the document; remove it");
  EXPECT_EQ(error_of("- a\n, b"), "f:2: ', b' belongs to no value of the document; remove it");
  EXPECT_EQ(error_of("a: 1\n---\n,"), "f:3: a second document starts here; write one description a file");
}

TEST(YamlTree, ACommaAloneEndsForEveryReader) {
  for (const std::string text : {",", "- a\n, b", "a: 1\n---\n,", "]", "}\n"}) {
    for (const std::string& message : {formats::read_job(text, "f").error().message,
                                       formats::read_machine(text, "f", testing::shipped_chips()).error().message,
                                       formats::read_arguments(text, "f").error().message}) {
      EXPECT_TRUE(message.starts_with("f:")) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    }
  }
}

TEST(YamlTree, AliasesStandForWhatTheyName) {
  EXPECT_EQ(drawn("a: &x [1, 2]\nb: *x\nc: {*x : *x}\n"), "{a: [1, 2], b: [1, 2], c: {[1, 2]: [1, 2]}}");
}

TEST(YamlTree, AnAliasInsideWhatItNamesIsRefused) {
  EXPECT_EQ(error_of("a: &x\n  - *x\n"), "f:2: an alias stands inside what it names; write it out");
  EXPECT_EQ(formats::read_arguments("--a: &x [*x, *x, *x, *x, *x, *x, *x, *x]\n", "f.yaml").error().message,
            "f.yaml:1: an alias stands inside what it names; write it out");
}

TEST(YamlTree, AliasesOfAliasesAreCountedWhereTheyStand) {
  std::string laughs = "l0: &l0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n";
  for (int i = 1; i < 9; ++i) {
    laughs += fmt::format("l{}: &l{} [", i, i);
    for (int k = 0; k < 10; ++k) laughs += fmt::format("{}*l{}", k > 0 ? ", " : "", i - 1);
    laughs += "]\n";
  }
  constexpr std::string_view kMore =
      "the values up to here are more than 131072, with aliases written out; a description has fewer";
  EXPECT_EQ(error_of(laughs), fmt::format("f:6: {}", kMore));
  EXPECT_NE(formats::read_job(laughs, "f").error().message.find(kMore), std::string::npos);
  EXPECT_NE(formats::read_arguments(laughs, "f.yaml").error().message.find("are more than 131072"), std::string::npos);
}

TEST(YamlTree, TextsOfAliasesAreCountedWhereTheyStand) {
  std::string text = "a: &a " + std::string(100'000, 'x') + "\nb: [";
  for (int i = 0; i < 100; ++i) text += "*a, ";
  EXPECT_EQ(error_of(text + "]\n"),
            "f:2: the texts up to here have more than 8388608 bytes, with aliases written out; a description has "
            "fewer");
}

TEST(YamlTree, DepthCountsThroughAliases) {
  EXPECT_EQ(error_of(std::string(64, '[') + "1" + std::string(64, ']')), "");
  constexpr std::string_view kDeep = "values lie more than 64 levels deep; write them flatter";
  EXPECT_EQ(error_of(std::string(65, '[') + "1" + std::string(65, ']')), fmt::format("f:1: {}", kDeep));
  EXPECT_EQ(error_of(std::string(100'000, '[')), fmt::format("f:1: {}", kDeep));
  std::string chain = "- &l0 [x]\n";
  for (int i = 1; i < 100; ++i) chain += fmt::format("- &l{} [*l{}]\n", i, i - 1);
  EXPECT_EQ(error_of(chain), fmt::format("f:64: {}", kDeep));
}

TEST(YamlTree, SignsAreCountedBeforeParsing) {
  const auto list = [](std::size_t items) { return "[" + std::string(items, ',') + "]"; };
  EXPECT_EQ(error_of("\n[" + std::string(formats::kMostYamlSigns, ',') + "]"),
            "f:2: the signs [{,?:&*!\"' up to here are more than 131072; a description has fewer");
  EXPECT_NE(formats::read_arguments("{\"a\": " + list(formats::kMostYamlSigns) + "}", "f.json")
                .error()
                .message.find("more than 131072"),
            std::string::npos);
}

TEST(YamlTree, LineSeparatorsOfUnicodeDoNotReachAMessage) {
  for (const std::string separator : {"\xe2\x80\xa8", "\xe2\x80\xa9", "\xc2\x85"}) {
    const std::string message =
        formats::read_machine("\"a" + separator + "b\": 1\n", "f", testing::shipped_chips()).error().message;
    EXPECT_NE(message.find("'a?b'"), std::string::npos) << message;
  }
}

TEST(YamlTree, AMessageStaysOnOneShortLine) {
  for (const std::string text :
       {"a: *b\x1b\x07\n", "a: \"\\\n\t\\\x01\"\n", "a: !\x01<\n", "%TAG \x02 \x03\n", "? \"\\\r"}) {
    const std::string message = error_of(text);
    for (const char c : message) EXPECT_GE(static_cast<unsigned char>(c), 0x20) << message;
  }
  const std::string message = error_of("a: \"\\\x07\"\n");
  EXPECT_TRUE(message.starts_with("f:1: this is not valid YAML (unknown escape character: ?); write")) << message;
  EXPECT_LT(error_of("a: *" + std::string(100'000, 'b') + "\n").size(), 300U);
}

}  // namespace
}  // namespace tidemark
