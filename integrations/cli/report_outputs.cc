#include "integrations/cli/report_outputs.h"

#include <fmt/format.h>

#include <algorithm>

namespace tidemark::cli {

std::vector<std::string> report_format_words() {
  return {ci::kReportFormatWords.begin(), ci::kReportFormatWords.end()};
}

Result<ReportOutput> parse_report_output(std::string_view text) {
  const std::size_t equals = text.find('=');
  const std::string word(text.substr(0, equals));
  const auto found = std::ranges::find(ci::kReportFormatWords, word);
  if (found == ci::kReportFormatWords.end())
    return bad_input(fmt::format("'{}' is no format; FORMAT is {}{}, as in junit=report.xml", word,
                                 join_words(report_format_words()), hint_for(word, report_format_words())));
  if (equals == std::string_view::npos || equals + 1 == text.size())
    return bad_input(fmt::format("'{}' names no file; write {}=PATH, or {}=- for stdout", text, word, word));
  return ReportOutput{.format = static_cast<ci::ReportFormat>(found - ci::kReportFormatWords.begin()),
                      .path = std::string(text.substr(equals + 1))};
}

void add_report_outputs(CLI::App& app, std::vector<ReportOutput>& outputs) {
  CLI::Option* option = app.add_option_function<std::vector<std::string>>(
      "--output",
      [&outputs](const std::vector<std::string>& texts) {
        outputs.clear();
        for (const std::string& text : texts) {
          Result<ReportOutput> output = parse_report_output(text);
          if (!output) throw CLI::ValidationError("--output", output.error().message);
          outputs.push_back(std::move(output).value());
        }
      },
      fmt::format("a report as {}; repeatable, all from one run; PATH - is stdout", join_words(report_format_words())));
  option->type_name("FORMAT=PATH")
      ->type_size(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  std::vector<std::string> words = report_format_words();
  for (std::string& word : words) word += '=';
  note_words(*option, words);
}

}  // namespace tidemark::cli
