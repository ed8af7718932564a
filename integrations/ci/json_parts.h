#pragma once
// Parts that JSON reports share (docs/schemas). Private to ci.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "integrations/ci/changed_control.h"
#include "integrations/formats/json_text.h"
#include "planner/budget/control.h"
#include "planner/budget/growth.h"
#include "planner/budget/holdings.h"
#include "planner/budget/remedy.h"

namespace tidemark::ci {

/// A JSON text of the nouns of the gate: members in the order of the calls, all text UTF-8.
class JsonParts {
 public:
  explicit JsonParts(std::string& out) : json_(out) {}
  [[nodiscard]] formats::JsonText& json() { return json_; }

  void text(std::string_view name, std::string_view value);
  void text_or_null(std::string_view name, std::string_view value);  ///< empty is null
  template <class Value>
  void number(std::string_view name, Value value) {
    json_.key(name);
    json_.value(value);
  }
  void bytes(std::string_view name, const std::optional<Bytes>& value);
  void null(std::string_view name);

  /// An object as an item, an item on a line of its own, or a member. `write` writes what is in it.
  template <class Write>
  void object(const Write& write) {
    json_.open_object();
    write();
    json_.close_object();
  }
  template <class Write>
  void row(const Write& write) {
    json_.line();
    object(write);
  }
  template <class Write>
  void object(std::string_view name, const Write& write) {
    json_.key(name);
    object(write);
  }
  /// A member that is a list: `write` writes one item.
  template <class Items, class Write>
  void list(std::string_view name, const Items& items, const Write& write) {
    json_.key(name);
    json_.open_list();
    for (const auto& item : items) write(item);
    json_.close_list();
  }
  void texts(std::string_view name, const std::vector<std::string>& values);
  void control(std::string_view name, const budget::Control& control);  ///< without a file: null
  void controls(const std::vector<budget::Control>& controls);
  void changed(const std::optional<ChangedControl>& changed);
  void categories(std::string_view name, const budget::CategoryBytes& bytes);
  void phases(const budget::PhaseBytes& bytes);
  void contributors(std::string_view name, const std::vector<budget::HeldStorage>& storages);
  /// Without storages.
  void ranks(std::string_view name, const std::vector<budget::RankHoldings>& ranks);
  void growth(std::string_view name, const budget::Growth& growth);
  void remedy(std::string_view name, const std::optional<budget::Remedy>& remedy);

 private:
  void storages_grown(const std::vector<budget::StorageGrowth>& storages);
  void members(const budget::Control& control);

  formats::JsonText json_;
};

}  // namespace tidemark::ci
