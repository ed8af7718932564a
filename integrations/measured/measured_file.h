#pragma once
// Which measurement a file is and which rank it is of, by name and first bytes. Pure.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tidemark::measured {

enum class MeasuredKind : std::uint8_t { snapshot, operator_memory, memory_record, module_memory, device_samples };
inline constexpr std::array<std::string_view, 5> kMeasuredKindWords = {
    "memory snapshot", "operator_memory.csv", "memory_record.csv", "npu_module_mem.csv", "device samples"};
inline constexpr std::int64_t kMostRankNumber = (std::int64_t{1} << 31) - 1;

/// What the ending of a name says, whatever its case.
enum class NameEnding : std::uint8_t {
  measurement,  ///< `.pickle`, `.pkl`, `.csv`, `.json`, `.jsonl`, `.ndjson`, or none behind a name such as `rank_3`
  packed,       ///< one of those, packed, cut off or put aside: `rank_3.jsonl.gz`, `rank_3.csv.part`, `rank_3.jsonl.1`
  other,        ///< none of those: `rank_3.log`, `log_rank_3`, `rank3.pt.trace.json.gz`
};
[[nodiscard]] NameEnding ending_of(std::string_view file_name);

/// By its name alone, whatever its case: `*.pickle`, `*.pkl`, `*operator_memory*.csv`, `*memory_record*.csv`,
/// `*npu_module_mem*.csv`,
/// `*device_sample*`. Nothing: the name does not say.
[[nodiscard]] std::optional<MeasuredKind> kind_by_name(std::string_view file_name);

/// By how it begins: a pickle, the columns of a table, a line of tidemark.device_sample(). Nothing: none of them.
[[nodiscard]] std::optional<MeasuredKind> kind_by_content(std::string_view head);

/// The number behind the word `rank` in a name of a file or folder, with `_`, `-`, `=` or nothing between: `rank3`,
/// `snapshot_rank_3.pickle`, `Rank-3`. Nothing: it has none, or one above 2^31 - 1.
[[nodiscard]] std::optional<std::int64_t> rank_in_name(std::string_view name);

/// The rank of `profiler_info_3.json`, which torch_npu's profiler writes into the folder of a rank. Nothing: another
/// name.
[[nodiscard]] std::optional<std::int64_t> rank_of_profiler_info(std::string_view name);

}  // namespace tidemark::measured
