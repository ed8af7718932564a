#pragma once
// Options with the project's own readers instead of the parser library's conversions: sizes with units, numbers with
// ranges, words with near misses. A value that is wrong throws CLI::ValidationError, which main turns into one line.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"

namespace tidemark::cli {

enum class Format : std::uint8_t { text, json };

/// `--budget 60GiB`.
void add_size(CLI::App& app, const std::string& name, std::optional<Bytes>& value, const std::string& help);

/// `--capacity 1MiB`, or a bare number of bytes: where tables of bare bytes are meant, their sizes may be, too. From
/// `least` to `most`.
void add_bytes(CLI::App& app, const std::string& name, std::optional<Bytes>& value, Bytes least, Bytes most,
               const std::string& help);

/// `--time-limit 10s`: nanoseconds, above 0 and at most a day.
void add_duration(CLI::App& app, const std::string& name, std::optional<std::int64_t>& value_ns,
                  const std::string& help);

/// `--d2h 23.4GB/s`: bytes per second, in the range a device file may state.
void add_rate(CLI::App& app, const std::string& name, std::optional<double>& value_bytes_per_s,
              const std::string& help);

/// `--threads N`, 0 for all cores.
void add_threads(CLI::App& app, int& threads);

/// A whole number in [least, most].
void add_count(CLI::App& app, const std::string& name, int& value, int least, int most, const std::string& help);

/// A finite number in (0, most].
void add_positive(CLI::App& app, const std::string& name, std::optional<double>& value, double most,
                  const std::string& help);

/// A finite number in [least, most].
void add_number(CLI::App& app, const std::string& name, std::optional<double>& value, double least, double most,
                const std::string& help);

/// One of `words`; a near miss is suggested. `what` names the kind of word: "policy".
void add_word(CLI::App& app, const std::string& name, std::string& value, std::string_view what,
              const std::vector<std::string>& words, const std::string& help);

/// Errors (bad_input): `unknown policy 'x'; did you mean 'y'? known: y or z`, where it is none of `words`.
[[nodiscard]] Status expect_word(std::string_view what, const std::string& word, const std::vector<std::string>& words);

/// `--format text|json`.
void add_format(CLI::App& app, Format& format);

/// Notes words that a value of this option begins with or is; one that ends in `=` is followed by a file. No blanks.
void note_words(CLI::Option& option, const std::vector<std::string>& words);
/// The words that an option of add_word or add_format takes, or that were noted; empty: it takes something else.
[[nodiscard]] std::vector<std::string> words_of(const CLI::Option& option);

/// Notes that a value of this option is a name that `tidemark list KIND` gives when it is asked.
void note_listed(CLI::Option& option, std::string_view kind);
/// The KIND that was noted; empty: none was.
[[nodiscard]] std::string listed_kind_of(const CLI::Option& option);

/// `--device NAME|FILE`.
void add_device(CLI::App& app, std::string& value, const std::string& help);
/// `--job NAME`, of a budget file.
void add_job_name(CLI::App& app, std::string& value, const std::string& help);

/// -h, --help and -q, --quiet, which every verb has.
void add_common_options(CLI::App& app, bool& quiet);

/// A file to be read or written, where `-` is stdout (output_set.h). An empty name is refused.
void add_file(CLI::App& app, const std::string& name, std::filesystem::path& value, const std::string& help);

/// `0-3,15`.
void add_ranks(CLI::App& app, const std::string& name, std::vector<std::int32_t>& value, const std::string& help);

/// A distance below a budget.
struct Margin {
  std::string text = "3 %";    ///< for people
  std::optional<Bytes> bytes;  ///< as a size, or else
  double percent = 3;          ///< of the budget
  [[nodiscard]] Bytes of(Bytes budget_bytes) const;
};
/// `512MiB` or `3%`.
void add_margin(CLI::App& app, const std::string& name, Margin& value, const std::string& help);
/// Errors (bad_input): neither a size nor a percentage from 0 to 100.
[[nodiscard]] Result<Margin> parse_margin(std::string_view text);

/// Text as a finite number, all of it. Errors (bad_input): not a number.
[[nodiscard]] Result<double> parse_number(std::string_view text);

/// `0-3,15`: ascending and unique. Errors (bad_input): not such a list, a rank beyond 65535.
[[nodiscard]] Result<std::vector<std::int32_t>> parse_ranks(std::string_view text);

/// Expert load as asked for: one number for every site, or a quantile of the job's distribution.
struct Imbalance {
  std::optional<double> load;      ///< f of every layer and micro-batch
  std::optional<double> quantile;  ///< in (0, 1)
  bool where_it_varies = false;    ///< a quantile is for jobs whose load varies, and says nothing about the others
};
/// `1.5` or `p99`. Errors (bad_input): not above 0, above 65536, not a number, a quantile beyond what is sampled
/// (graph_build/expert_load.h).
[[nodiscard]] Result<Imbalance> parse_imbalance(std::string_view text);
void add_imbalance(CLI::App& app, const std::string& name, Imbalance& value, const std::string& help);

/// `--group-device 3`, or nothing for `all`. Errors (bad_input): neither, or not below `devices`.
[[nodiscard]] Result<std::optional<std::int64_t>> parse_group_device(std::string_view text, std::int64_t devices);

/// `; did you mean 'word'?`, or nothing.
[[nodiscard]] std::string hint_for(std::string_view word, const std::vector<std::string>& known);

/// `a, b or c`.
[[nodiscard]] std::string join_words(const std::vector<std::string>& words);

}  // namespace tidemark::cli
