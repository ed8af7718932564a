#pragma once
// Strong ids: one enum type per kind of row, so that an op index can never be used where a storage index is meant.
// An id is the row number in the owning column of a Graph, Schedule or Layout; -1 (kNone<Id>) means "no row".

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tidemark {

enum class OpTemplateId : std::int32_t {};
enum class StorageTemplateId : std::int32_t {};
enum class BlockId : std::int32_t {};
enum class RecipeId : std::int32_t {};
enum class SiteId : std::int32_t {};
enum class OpId : std::int32_t {};  ///< position in program order: the only memory clock (invariant 1)
enum class StorageId : std::int32_t {};
enum class TaskId : std::int32_t {};  ///< position in the issue order of a Schedule
enum class ResidencyId : std::int32_t {};
enum class ArenaId : std::int32_t {};

template <class Id>
concept RowId = std::is_enum_v<Id>;

template <RowId Id>
inline constexpr Id kNone = static_cast<Id>(-1);

/// The row number behind an id. REQUIRES: id is not kNone.
template <RowId Id>
constexpr std::size_t row(Id id) {
  return static_cast<std::size_t>(static_cast<std::int32_t>(id));
}

/// The id of a row. REQUIRES: row < 2^31.
template <RowId Id>
constexpr Id id_of(std::size_t row_number) {
  return static_cast<Id>(static_cast<std::int32_t>(row_number));
}

template <RowId Id>
constexpr Id next(Id id) {
  return static_cast<Id>(static_cast<std::int32_t>(id) + 1);
}

}  // namespace tidemark
