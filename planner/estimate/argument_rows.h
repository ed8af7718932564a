#pragma once
// The table of arguments: one row each, in groups by what they describe. A row either writes into a Draft, or says why
// the argument has no effect on memory, or that what it does is not modelled. Private to planner/estimate.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "planner/estimate/argument_draft.h"

namespace tidemark::estimate {

/// Setters. A text's setter returns what would be right, or nothing if it took the text.
using SetSwitch = void (*)(Draft&, bool);
using SetCount = void (*)(Draft&, std::int64_t);
using SetReal = void (*)(Draft&, double);
using SetText = std::string_view (*)(Draft&, std::string_view);

enum class Effect : std::uint8_t {
  used,
  none,          ///< no effect on memory
  not_modelled,  ///< changes memory in a way that is not modelled, but not much: reported, the job goes on
  refused,       ///< the job's memory is not modelled at all: an error, unless switched off
};

struct ArgumentRow {
  std::string_view name;
  Effect effect = Effect::used;
  std::variant<std::monostate, SetSwitch, SetCount, SetReal, SetText> set;
  double least = 0;
  double most = 0;
  std::string_view reason;  ///< where it is not used
};

// Rows, written short. Ranges keep typing errors from becoming sizes no machine has.
inline constexpr double kMostWidth = 1 << 24;
inline constexpr double kMostCount = 1 << 16;
inline constexpr double kMostDegree = 1 << 20;
inline constexpr double kMostTokens = 1 << 27;

[[nodiscard]] constexpr ArgumentRow on_off(std::string_view name, SetSwitch set) {
  return {.name = name, .set = set};
}
[[nodiscard]] constexpr ArgumentRow count(std::string_view name, double least, double most, SetCount set) {
  return {.name = name, .set = set, .least = least, .most = most};
}
[[nodiscard]] constexpr ArgumentRow real(std::string_view name, double least, double most, SetReal set) {
  return {.name = name, .set = set, .least = least, .most = most};
}
[[nodiscard]] constexpr ArgumentRow text(std::string_view name, SetText set) {
  return {.name = name, .set = set};
}
[[nodiscard]] constexpr ArgumentRow no_effect(std::string_view name, std::string_view reason) {
  return {.name = name, .effect = Effect::none, .reason = reason};
}
[[nodiscard]] constexpr ArgumentRow not_modelled(std::string_view name, std::string_view reason) {
  return {.name = name, .effect = Effect::not_modelled, .reason = reason};
}
[[nodiscard]] constexpr ArgumentRow refused(std::string_view name, std::string_view reason) {
  return {.name = name, .effect = Effect::refused, .reason = reason};
}

[[nodiscard]] std::span<const ArgumentRow> model_arguments();
[[nodiscard]] std::span<const ArgumentRow> attention_arguments();
[[nodiscard]] std::span<const ArgumentRow> expert_arguments();
[[nodiscard]] std::span<const ArgumentRow> parallel_arguments();
[[nodiscard]] std::span<const ArgumentRow> optimizer_arguments();
[[nodiscard]] std::span<const ArgumentRow> recompute_arguments();
[[nodiscard]] std::span<const ArgumentRow> mindspeed_arguments();
[[nodiscard]] std::span<const ArgumentRow> refused_arguments();
[[nodiscard]] std::span<const ArgumentRow> training_arguments();  ///< loop, data, checkpoints, logging
[[nodiscard]] std::span<const ArgumentRow> numerics_arguments();  ///< kernels, rotary tables, routing, communication
/// Rows of whole families, by the beginning of the name.
[[nodiscard]] std::span<const ArgumentRow> argument_families();

/// `--Some_name` as the table spells it.
[[nodiscard]] std::string table_name(std::string_view given);

/// `no-x` or `disable-x` that no row has, of an x that one has.
[[nodiscard]] bool is_opposite(std::string_view name);

/// The row of an argument, by name, `disable-x` as `no-x`, or else by family; nullptr: unknown.
[[nodiscard]] const ArgumentRow* find_argument(std::string_view name);

}  // namespace tidemark::estimate
