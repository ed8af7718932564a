#pragma once
// Python pickles as plain values, protocols 0 to 5, without running anything.
//
// A pickle is a program for a small stack machine, and some of its instructions import and call Python objects. This
// reader knows only the instructions that build None, booleans, numbers, texts, bytes, lists, tuples, dicts and sets.
// All others (GLOBAL, REDUCE, BUILD, persistent ids, extension codes, ...) are refused by name, so a file can at worst
// be wrong. Nothing recurses, every length is checked against what is left of the input before it is used, and the
// number of values, of open marks and of the keys of a dict is bounded.
//
// Values are rows of one table and refer to each other by row: shared parts (the memo) stay shared, and cycles, which
// pickle can express, do no harm to whoever does not walk blindly.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/result.h"

namespace tidemark::formats {

enum class PickleId : std::int32_t {};

struct PickleValue {
  enum class Kind : std::uint8_t { none, boolean, integer, real, text, bytes, list, tuple, dict, set };
  Kind kind = Kind::none;
  /// integer and boolean: int64 (or, above it, uint64); text (UTF-8), bytes: a view into the input, escapes of
  /// protocol 0 as written; list, tuple, set: items; dict: key, value, key, value, ...
  std::variant<std::int64_t, std::uint64_t, double, std::string_view, std::vector<PickleId>> data;
};

class PickleDocument {
 public:
  [[nodiscard]] const PickleValue& get(PickleId id) const { return values_[static_cast<std::size_t>(id)]; }
  [[nodiscard]] PickleId root() const { return root_; }
  [[nodiscard]] std::size_t size() const { return values_.size(); }

  /// The value under a text key; of equal keys the last. Nothing: not a dict, or no such key.
  [[nodiscard]] std::optional<PickleId> find(PickleId dict, std::string_view key) const;
  /// Items of a list or tuple. Nothing: something else.
  [[nodiscard]] const std::vector<PickleId>* find_items(PickleId id) const;
  [[nodiscard]] std::optional<std::int64_t> find_integer(PickleId id) const;
  /// An integer from 0 to 2^64-1: addresses and stream handles.
  [[nodiscard]] std::optional<std::uint64_t> find_unsigned(PickleId id) const;
  [[nodiscard]] std::optional<std::string_view> find_text(PickleId id) const;

 private:
  friend class PickleMachine;
  std::vector<PickleValue> values_;
  PickleId root_{};
};

/// `bytes` must outlive the document: texts refer to it. O(size). Errors (bad_input): `file: byte N: what`.
[[nodiscard]] Result<PickleDocument> read_pickle(std::string_view bytes, std::string_view file_name);

}  // namespace tidemark::formats
