#include "integrations/ci/decimal_text.h"

#include <charconv>
#include <system_error>

namespace tidemark::ci {

std::optional<double> parse_decimal(std::string_view text) {
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc{} || rest != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace tidemark::ci
