#include "integrations/ci/changed_control.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "integrations/ci/control_texts.h"
#include "integrations/ci/report_tables.h"
#include "integrations/ci/safe_text.h"
#include "integrations/ci/setting_text.h"
#include "integrations/formats/shown.h"

namespace tidemark::ci {
namespace {

/// What the lines of a job said.
class FormerTexts {
 public:
  explicit FormerTexts(const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      canonical_.insert(canonical_text(text));
      by_key_.try_emplace(setting_of(text).key, text);
    }
  }

  [[nodiscard]] bool is_changed(const budget::Control& control) const {
    return is_placed(control) && !canonical_.contains(canonical_text(with_replacements(control.text)));
  }
  /// The text with the same key; empty: there is none.
  [[nodiscard]] std::string with_key_of(std::string_view text) const {
    const auto found = by_key_.find(setting_of(text).key);
    return found == by_key_.end() ? std::string() : std::string(found->second);
  }
  [[nodiscard]] ChangedLine line_of(const budget::Control& now) const {
    return {.now = now, .before = with_key_of(with_replacements(now.text))};
  }

 private:
  std::set<std::string> canonical_;
  std::map<std::string_view, std::string_view> by_key_;
};

/// What of `before` has a key that no text of `now` has, up to three of them.
std::vector<std::string> texts_gone(const std::vector<std::string>& before, const std::vector<std::string>& now) {
  constexpr std::size_t kMostNamed = 3;
  const FormerTexts texts(now);
  std::vector<std::string> gone;
  for (const std::string& text : before)
    if (gone.size() < kMostNamed && texts.with_key_of(text).empty()) gone.push_back(text);
  return gone;
}

/// A control of a storage that changed, of what decides most first.
template <class Storages>
const budget::Control* first_changed(const FormerTexts& before, const Storages& storages) {
  for (const auto& storage : storages)
    for (const budget::Control& control : storage.controls)
      if (before.is_changed(control)) return &control;
  return nullptr;
}

/// Of a job of which no line that controls a storage changed.
std::vector<ChangedLine> changed_settings(const std::vector<std::string>& before, const FormerTexts& former,
                                          const budget::Holdings& after) {
  const std::vector<std::string> gone = texts_gone(before, control_texts(after));
  std::vector<ChangedLine> lines;
  for (const budget::Control& setting : after.settings)
    if (lines.size() + gone.size() < kMostChangedLines && former.is_changed(setting))
      lines.push_back(former.line_of(setting));
  if (!gone.empty()) lines.push_back({.before = fmt::format("{}", fmt::join(gone, ", "))});
  return lines;
}

std::string line_text(const ChangedLine& line) {
  if (line.now.text.empty()) return line.before + " (no longer in effect)";
  const std::string_view value = setting_of(line.before).value;
  const std::string was = line.before.empty()
                              ? "not given before"
                              : fmt::format("was {}", value.empty() ? std::string_view(line.before) : value);
  return fmt::format("{} ({})", control_text(line.now), was);
}

}  // namespace

std::optional<ChangedControl> changed_control(const std::vector<std::string>& before, const budget::Holdings& after,
                                              const std::vector<budget::StorageGrowth>& growth,
                                              const std::vector<budget::HeldStorage>& held) {
  if (before.empty()) return std::nullopt;
  const FormerTexts former(before);
  std::vector<budget::StorageGrowth> grown = growth;
  std::erase_if(grown, [](const budget::StorageGrowth& storage) { return storage.delta_bytes() <= 0; });
  if (const budget::Control* changed = first_changed(former, grown))
    return ChangedControl{.line = former.line_of(*changed), .others = {}};
  if (const budget::Control* changed = first_changed(former, held))
    return ChangedControl{.line = former.line_of(*changed), .others = {}};
  std::vector<ChangedLine> lines = changed_settings(before, former, after);
  if (lines.empty()) return std::nullopt;
  ChangedControl changed{.line = std::move(lines.front()), .others = {}};
  changed.others.assign(std::next(lines.begin()), lines.end());
  return changed;
}

std::string changed_text(const std::optional<ChangedControl>& changed) {
  if (!changed) return {};
  std::string text = "; changed: " + line_text(changed->line);
  for (const ChangedLine& other : changed->others) text += ", " + line_text(other);
  return formats::printable(text);
}

}  // namespace tidemark::ci
