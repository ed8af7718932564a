#include "integrations/ci/control_texts.h"

#include <algorithm>

#include "integrations/ci/safe_text.h"

namespace tidemark::ci {

bool is_placed(const budget::Control& control) {
  return !control.file.empty() && control.line > 0;
}

std::vector<std::string> control_texts(const budget::Holdings& holdings) {
  std::vector<std::string> texts;
  for (const budget::RankHoldings& rank : holdings.ranks)
    for (const budget::HeldStorage& storage : rank.storages)
      for (const budget::Control& control : storage.controls)
        if (is_placed(control)) texts.push_back(with_replacements(control.text));
  for (const budget::Control& setting : holdings.settings)
    if (is_placed(setting)) texts.push_back(with_replacements(setting.text));
  std::ranges::sort(texts);
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  return texts;
}

}  // namespace tidemark::ci
