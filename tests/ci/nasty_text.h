#pragma once
// Texts that break formats: markup of each of them, controls, what is no UTF-8, what is no character.

#include <array>
#include <random>
#include <string>
#include <string_view>

namespace tidemark::testing {

inline std::string nasty_text(std::mt19937& random) {
  using namespace std::string_view_literals;
  constexpr std::array<std::string_view, 48> kPieces = {"a"sv,
                                                        "layers.mlp"sv,
                                                        "<script>"sv,
                                                        "</script>"sv,
                                                        "]]>"sv,
                                                        "<![CDATA["sv,
                                                        "&amp;"sv,
                                                        "&"sv,
                                                        "\""sv,
                                                        "'"sv,
                                                        "|"sv,
                                                        "`"sv,
                                                        "```"sv,
                                                        "\\"sv,
                                                        "\n"sv,
                                                        "\r\n"sv,
                                                        "\t"sv,
                                                        "\0"sv,
                                                        "\x01"sv,
                                                        "\x1b[31m"sv,
                                                        "\x7f"sv,
                                                        "\xc2\x85"sv,
                                                        "\xe2\x80\xa8"sv,
                                                        "\xe2\x80\xae"sv,
                                                        "\xe2\x81\xa7"sv,
                                                        "\xef\xbf\xbe"sv,
                                                        "\xef\xbf\xbf"sv,
                                                        "\xef\xb7\x90"sv,
                                                        "\xff"sv,
                                                        "\xc3"sv,
                                                        "\xed\xa0\x80"sv,
                                                        "\xf4\x90\x80\x80"sv,
                                                        "\xc0\xaf"sv,
                                                        "\xf0\x9f\x92\xa5"sv,
                                                        "\xc3\xa4"sv,
                                                        "%"sv,
                                                        "%0A"sv,
                                                        "::error::"sv,
                                                        ":"sv,
                                                        ","sv,
                                                        "# "sv,
                                                        "- "sv,
                                                        "1. "sv,
                                                        "*x*"sv,
                                                        "[l](http://x)"sv,
                                                        "<!--"sv,
                                                        "--"sv,
                                                        " "sv};
  std::string text;
  for (std::size_t i = random() % 8; i > 0; --i) text += kPieces[random() % kPieces.size()];
  return text;
}

}  // namespace tidemark::testing
