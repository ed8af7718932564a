#include "integrations/cli/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "integrations/formats/field_ranges.h"
#include "integrations/formats/near_miss.h"
#include "integrations/formats/quantity.h"
#include "integrations/formats/shown.h"
#include "planner/graph_build/expert_load.h"

namespace tidemark::cli {
namespace {

/// Adds an option whose text goes through `read`; a failed Result becomes the parser's error.
template <class Read>
CLI::Option* add_read(CLI::App& app, const std::string& name, const std::string& type, const std::string& help,
                      Read read) {
  CLI::Option* option = app.add_option_function<std::string>(
      name,
      [name, read](const std::string& text) {
        if (Status status = read(text); !status) throw CLI::ValidationError(name, status.error().message);
      },
      help);
  return option->type_name(type);
}

/// The same with a reader of a whole value.
template <class T>
void add_parsed(CLI::App& app, const std::string& name, const std::string& type, T& value,
                Result<T> (*parse)(std::string_view), const std::string& help) {
  add_read(app, name, type, help, [&value, parse](const std::string& text) -> Status {
    Result<T> result = parse(text);
    if (!result) return result.error();
    value = std::move(result).value();
    return {};
  });
}

std::optional<std::int32_t> whole_number(std::string_view text) {
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// What an option takes besides checks rides along with it as the name of a validator that lets everything pass: the
/// parser library has no other place for it. Words have no blanks.
constexpr std::string_view kWordsPrefix = "words: ";
constexpr std::string_view kListedPrefix = "listed: ";

void note_text(CLI::Option& option, std::string_view prefix, std::string_view text) {
  option.check([](const std::string&) { return std::string(); }, "", fmt::format("{}{}", prefix, text));
}

/// What was noted behind a prefix; empty: nothing was.
std::string noted_text(const CLI::Option& option, std::string_view prefix) {
  // The library asks for an option that may be changed, and throws where there is no validator left.
  auto& asked = const_cast<CLI::Option&>(option);
  try {
    for (int i = 0;; ++i) {
      const std::string& name = asked.get_validator(i)->get_name();
      if (name.starts_with(prefix)) return name.substr(prefix.size());
    }
  } catch (const CLI::OptionNotFound&) {
    return {};
  }
}

Error bad_ranks(std::string_view part) {
  return bad_input(fmt::format("{} is not a rank or a range of ranks; write like 0-3,15", formats::shown(part)));
}

}  // namespace

void add_size(CLI::App& app, const std::string& name, std::optional<Bytes>& value, const std::string& help) {
  add_read(app, name, "SIZE", help, [&value](const std::string& text) -> Status {
    const Result<Bytes> bytes = parse_bytes(text);
    if (!bytes) return bytes.error();
    if (bytes.value() > formats::kMostPlanBytes)
      return bad_input(fmt::format("{} is out of range; it must be at most {}", formats::shown(text),
                                   format_bytes(formats::kMostPlanBytes)));
    value = bytes.value();
    return {};
  });
}

void add_bytes(CLI::App& app, const std::string& name, std::optional<Bytes>& value, Bytes least, Bytes most,
               const std::string& help) {
  add_read(app, name, "SIZE|N", help, [&value, least, most](const std::string& text) -> Status {
    const bool bare = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
    const Result<Bytes> size = parse_bytes(bare ? text + "B" : text);
    if (!size && !bare) return size.error();
    if (!size || size.value() < least || size.value() > most) {
      return bad_input(fmt::format("{} is out of range; it must be from {} to {} bytes ({})", formats::shown(text),
                                   least, most, format_bytes(most)));
    }
    const Bytes bytes = size.value();
    value = bytes;
    return {};
  });
}

void add_duration(CLI::App& app, const std::string& name, std::optional<std::int64_t>& value_ns,
                  const std::string& help) {
  constexpr double kMostNs = 86'400e9;
  add_read(app, name, "TIME", help, [&value_ns](const std::string& text) -> Status {
    const Result<double> ns = formats::parse_duration_ns(text);
    if (!ns)
      return bad_input(
          fmt::format("{} is not a time; write a number and a unit, like 10s or 500ms", formats::shown(text)));
    if (ns.value() < 1 || ns.value() > kMostNs)
      return bad_input(fmt::format("{} is out of range; it must be above 0s and at most 86400s", formats::shown(text)));
    value_ns = static_cast<std::int64_t>(ns.value());
    return {};
  });
}

void add_rate(CLI::App& app, const std::string& name, std::optional<double>& value_bytes_per_s,
              const std::string& help) {
  add_read(app, name, "RATE", help, [&value_bytes_per_s](const std::string& text) -> Status {
    const Result<double> rate = formats::parse_bytes_per_s(text);
    if (!rate) return rate.error();
    if (!formats::real_range_of("bytes_per_s").holds(rate.value()))
      return bad_input(fmt::format("{} is out of range; it must be from {:.0e} to {:.0e} bytes per second",
                                   formats::shown(text), formats::kLeastBytesPerS, formats::kMostRate));
    value_bytes_per_s = rate.value();
    return {};
  });
}

void add_threads(CLI::App& app, int& threads) {
  constexpr int kMostThreads = 1024;
  add_count(app, "--threads", threads, 0, kMostThreads, "threads, 0 for all cores; never changes the result");
}

void add_count(CLI::App& app, const std::string& name, int& value, int least, int most, const std::string& help) {
  add_read(app, name, "N", help, [&value, least, most](const std::string& text) -> Status {
    const std::optional<std::int32_t> number = whole_number(text);
    if (!number || *number < least || *number > most)
      return bad_input(fmt::format("{} is not a whole number from {} to {}", formats::shown(text), least, most));
    value = *number;
    return {};
  });
}

void add_positive(CLI::App& app, const std::string& name, std::optional<double>& value, double most,
                  const std::string& help) {
  add_read(app, name, "NUMBER", help, [&value, most](const std::string& text) -> Status {
    const Result<double> number = parse_number(text);
    if (!number) return number.error();
    if (number.value() <= 0 || number.value() > most)
      return bad_input(
          fmt::format("{} is out of range; it must be above 0 and at most {}", formats::shown(text), most));
    value = number.value();
    return {};
  });
}

void add_number(CLI::App& app, const std::string& name, std::optional<double>& value, double least, double most,
                const std::string& help) {
  add_read(app, name, "NUMBER", help, [&value, least, most](const std::string& text) -> Status {
    const Result<double> number = parse_number(text);
    if (!number) return number.error();
    if (number.value() < least || number.value() > most)
      return bad_input(fmt::format("{} is out of range; it must be from {} to {}", formats::shown(text), least, most));
    value = number.value();
    return {};
  });
}

Status expect_word(std::string_view what, const std::string& word, const std::vector<std::string>& words) {
  if (std::ranges::find(words, word) != words.end()) return {};
  return bad_input(
      fmt::format("unknown {} {}{}; known: {}", what, formats::shown(word), hint_for(word, words), join_words(words)));
}

void add_word(CLI::App& app, const std::string& name, std::string& value, std::string_view what,
              const std::vector<std::string>& words, const std::string& help) {
  const auto read = [&value, what = std::string(what), words](const std::string& text) -> Status {
    Status status = expect_word(what, text, words);
    if (status) value = text;
    return status;
  };
  note_words(*add_read(app, name, "NAME", help, read), words);
}

void add_format(CLI::App& app, Format& format) {
  const auto read = [&format](const std::string& text) -> Status {
    if (text != "text" && text != "json")
      return bad_input(fmt::format("unknown format {}{}; known: text or json", formats::shown(text),
                                   hint_for(text, {"text", "json"})));
    format = text == "json" ? Format::json : Format::text;
    return {};
  };
  note_words(*add_read(app, "--format", "text|json", "how the result is printed", read), {"text", "json"});
}

void note_words(CLI::Option& option, const std::vector<std::string>& words) {
  note_text(option, kWordsPrefix, fmt::format("{}", fmt::join(words, " ")));
}

std::vector<std::string> words_of(const CLI::Option& option) {
  std::vector<std::string> words;
  std::istringstream text(noted_text(option, kWordsPrefix));
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

void note_listed(CLI::Option& option, std::string_view kind) {
  note_text(option, kListedPrefix, kind);
}

std::string listed_kind_of(const CLI::Option& option) {
  return noted_text(option, kListedPrefix);
}

void add_device(CLI::App& app, std::string& value, const std::string& help) {
  note_listed(*app.add_option("--device", value, help)->type_name("NAME|FILE"), "devices");
}

void add_job_name(CLI::App& app, std::string& value, const std::string& help) {
  note_listed(*app.add_option("--job", value, help)->type_name("NAME"), "jobs");
}

void add_common_options(CLI::App& app, bool& quiet) {
  app.set_help_flag("-h,--help", "print this help");
  app.add_flag("-q,--quiet", quiet, "no logs and no progress on stderr");
}

void add_file(CLI::App& app, const std::string& name, std::filesystem::path& value, const std::string& help) {
  add_read(app, name, "FILE", help, [&value](const std::string& text) -> Status {
    if (text.empty()) return bad_input("the file name is empty");
    value = text;
    return {};
  });
}

void add_ranks(CLI::App& app, const std::string& name, std::vector<std::int32_t>& value, const std::string& help) {
  add_parsed(app, name, "LIST", value, parse_ranks, help);
}

Bytes Margin::of(Bytes budget_bytes) const {
  return bytes ? *bytes : static_cast<Bytes>(static_cast<double>(budget_bytes) * percent / 100);
}

void add_margin(CLI::App& app, const std::string& name, Margin& value, const std::string& help) {
  add_parsed(app, name, "SIZE|PERCENT", value, parse_margin, help);
}

void add_imbalance(CLI::App& app, const std::string& name, Imbalance& value, const std::string& help) {
  add_parsed(app, name, "F|pQ", value, parse_imbalance, help);
}

Result<Margin> parse_margin(std::string_view text) {
  if (text.ends_with('%')) {
    const Result<double> percent = parse_number(text.substr(0, text.find_last_not_of(" %") + 1));
    if (!percent || percent.value() < 0 || percent.value() > 100)
      return bad_input(fmt::format("{} is not a percentage from 0% to 100%", formats::shown(text)));
    return Margin{.text = fmt::format("{} %", percent.value()), .percent = percent.value()};
  }
  const Result<Bytes> bytes = parse_bytes(text);
  if (!bytes) return bytes.error();
  return Margin{.text = std::string(text), .bytes = bytes.value()};
}

Result<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value))
    return bad_input(fmt::format("{} is not a number", formats::shown(text)));
  return value;
}

Result<std::optional<std::int64_t>> parse_group_device(std::string_view text, std::int64_t devices) {
  if (text == "all") return std::optional<std::int64_t>();
  const std::optional<std::int32_t> device = whole_number(text);
  if (device && *device >= 0 && *device < devices) return std::optional<std::int64_t>(*device);
  return bad_input(fmt::format("--group-device: {} is neither all nor a device of the expert group, 0 to {}",
                               formats::shown(text), devices - 1));
}

Result<std::vector<std::int32_t>> parse_ranks(std::string_view text) {
  std::vector<std::int32_t> ranks;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, comma - begin);
    const std::size_t dash = part.find('-');
    const std::optional<std::int32_t> first = whole_number(part.substr(0, dash));
    const std::optional<std::int32_t> last =
        dash == std::string_view::npos ? first : whole_number(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last > formats::kMostRank) return bad_ranks(part);
    for (std::int32_t rank = *first; rank <= *last; ++rank) ranks.push_back(rank);
    begin = comma + 1;
  }
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

Result<Imbalance> parse_imbalance(std::string_view text) {
  const bool is_quantile = text.starts_with('p') || text.starts_with('P');
  const Result<double> number = parse_number(is_quantile ? text.substr(1) : text);
  if (!number)
    return bad_input(fmt::format("{} is neither a load like 1.5 nor a quantile like p99", formats::shown(text)));
  const double value = number.value();
  if (is_quantile) {
    constexpr double kLeast = graph_build::kLeastLoadQuantile, kMost = graph_build::kMostLoadQuantile;
    constexpr double kSlack = 1e-12;  // a percentage divided by 100 may be off in the last digit
    const double quantile = value / 100;
    if (quantile < kLeast - kSlack || quantile > kMost + kSlack)
      return bad_input(fmt::format("quantile {} is out of range; peaks are sampled from p{:.3g} to p{:.3g}",
                                   formats::shown(text), 100 * kLeast, 100 * kMost));
    return Imbalance{.quantile = std::clamp(quantile, kLeast, kMost)};
  }
  if (value <= 0 || value > graph_build::kMostMeanLoad)
    return bad_input(fmt::format("load {} is out of range; rows on a device over the mean are above 0 and at most {}",
                                 formats::shown(text), graph_build::kMostMeanLoad));
  return Imbalance{.load = value};
}

std::string hint_for(std::string_view word, const std::vector<std::string>& known) {
  const std::optional<std::string> near = formats::find_near_miss(word, known);
  return near ? fmt::format("; did you mean '{}'?", *near) : "";
}

std::string join_words(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  return text;
}

}  // namespace tidemark::cli
