#pragma once
// Memory that the ranks of a job hold: the noun that limits, baselines and reports share. It was planned, estimated
// from a framework's arguments, or measured in a run.

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "planner/budget/control.h"

namespace tidemark::budget {

/// The origin of the figures. One Holdings has one.
enum class Basis : std::uint8_t {
  planned,    ///< addresses of a plan: a run that follows it, once checked, holds no more
  estimated,  ///< a closed form of a framework's own run, with an error band
  measured,   ///< reported by an allocator or a device
};
inline constexpr std::array<std::string_view, 3> kBasisWords = {"planned", "estimated", "measured"};

/// Parts of a training step, as limits name them.
enum class Phase : std::uint8_t { between_steps, forward, backward, optimizer };
inline constexpr std::size_t kPhaseCount = 4;
inline constexpr std::array<std::string_view, kPhaseCount> kPhaseWords = {"between_steps", "forward", "backward",
                                                                          "optimizer"};

/// Purposes of bytes, as limits and baselines name them.
enum class Category : std::uint8_t {
  parameters,
  gradients,
  optimizer_state,
  activations,
  temporaries,    ///< workspaces and other bytes of one op
  communication,  ///< buffers of collectives and messages, of any allocator
  reserve,  ///< outside the allocators that were asked (context, libraries, collectives): planned for, or measured
  cached,   ///< free blocks that an allocator holds: fragmentation
  other,    ///< the source names no purpose
};
inline constexpr std::size_t kCategoryCount = 9;
inline constexpr std::array<std::string_view, kCategoryCount> kCategoryWords = {
    "parameters",    "gradients", "optimizer_state", "activations", "temporaries",
    "communication", "reserve",   "cached",          "other"};

[[nodiscard]] std::string_view word_of(Basis basis);
[[nodiscard]] std::string_view word_of(Phase phase);
[[nodiscard]] std::string_view word_of(Category category);

/// All instances of one storage (or of one term of an estimate) that a rank holds at its peak: one row for all layers.
struct HeldStorage {
  /// Module path and name without layer numbers: `layers.attention.kv_up`. It is unique within a rank, and the same in
  /// every commit that does not change the storage.
  std::string name;
  std::string module;  ///< module path without layer numbers; empty: not known
  Category category = Category::other;
  std::string layers;      ///< `3-60`; empty: of no layer, or not known
  std::int64_t count = 1;  ///< instances in flight
  Bytes bytes = 0;         ///< of all of them; negative: a term that an estimate takes from others
  std::vector<Control> controls;
  friend bool operator==(const HeldStorage&, const HeldStorage&) = default;
};

using CategoryBytes = std::array<Bytes, kCategoryCount>;
using CategoryFlags = std::array<bool, kCategoryCount>;
/// The peak of a rank in each phase: the most live bytes of the phase, plus the `cached` and `reserve` bytes of the
/// rank's peak, as far as the source tells them. The allocator and the driver hold those in every phase, so a phase is
/// the rank's peak less the live bytes that the phase lacks. Nothing: the source does not tell phases apart.
using PhaseBytes = std::array<std::optional<Bytes>, kPhaseCount>;

struct RankHoldings {
  std::int64_t rank = 0;
  std::string place;     ///< `pp3`, or the measured file; empty: the job has one rank
  Bytes peak_bytes = 0;  ///< device memory that counts against a budget
  std::optional<Phase> peak_phase;
  std::string peak_at;  ///< `backward, micro-batch 14, layer 41`; empty: not known
  /// Peak host memory of the same process (pinned pool, a checkpoint being saved); nothing: not known.
  std::optional<Bytes> host_bytes;
  CategoryBytes by_category{};       ///< at the peak; adds up to peak_bytes
  Bytes reserve_left_out_bytes = 0;  ///< taken out by without_reserve; no figure of this rank has it
  /// Categories that the source does not tell: their figures in by_category are lower bounds.
  CategoryFlags is_untold{};
  PhaseBytes by_phase;
  std::vector<HeldStorage> storages;  ///< at the peak, largest first, ties by name
  friend bool operator==(const RankHoldings&, const RankHoldings&) = default;
};

struct Holdings {
  Basis basis = Basis::planned;
  std::string source;  ///< for people: `models/x.yaml, policy optimal`
  /// Expected distance of a measured run from the prediction, above or below, in percent of the peak (band_bytes).
  /// 0: the figures are planned or measured, or the distance is not known.
  double band_percent = 0;
  /// False: a part of the input was not understood. The error of the figures is then unknown, and no limit is PASS.
  bool is_understood = true;
  std::vector<std::string> doubts;  ///< parts that were not understood, a line each with its place
  std::int64_t rank_count = 0;      ///< of the job: ranks 0 to rank_count - 1; 0: not known
  /// Of an estimate, which has a row for one rank of each pipeline stage: the distance of ranks in neighbouring stages.
  /// 0: a row describes its own rank alone.
  std::int64_t stage_stride = 0;
  std::vector<RankHoldings> ranks;  ///< ascending by rank; at least one
  /// Ranks that the source names without a figure, ascending. `ranks` has none of them.
  std::vector<std::int64_t> untold_ranks;
  std::vector<std::string> notes;  ///< a line each
  /// Every setting of the job's own files with its line, whether or not it controls a storage. Empty: not known.
  std::vector<Control> settings;
};

/// The row of a rank, or the row that represents its stage; nothing: there is none. O(rows).
[[nodiscard]] std::optional<std::size_t> row_for(const Holdings& holdings, std::int64_t rank);

/// The row of the rank itself, not of another rank of its stage; nothing: there is none. O(log rows).
[[nodiscard]] std::optional<std::size_t> find_row(const Holdings& holdings, std::int64_t rank);

/// Expected error of a predicted peak, above or below. It is rounded up, since rounding down would promise too much. It
/// is known for the peak only: any part of it, a category or a phase, may be off by the same number of bytes.
[[nodiscard]] Bytes band_bytes(const Holdings& holdings, Bytes peak_bytes);

/// The rank with the highest peak; ties: the first. REQUIRES: at least one rank.
[[nodiscard]] std::size_t highest_rank(const Holdings& holdings);

/// Upper bound of a category at the peak: it includes `other`, where a source puts bytes that it cannot tell apart.
/// Nothing: the source does not tell the category.
[[nodiscard]] std::optional<Bytes> most_of(const RankHoldings& rank, Category category);

/// Adds storages of one name together, sorts them as RankHoldings says, sums by_category, and adds its difference to
/// peak_bytes, which the source does not tell apart, to `rest`. REQUIRES: by_category is all zero.
void settle(RankHoldings& rank, Category rest);

/// Takes up to `most_bytes` of Category::reserve out of each rank, for a limit whose capacity already lacks a reserve
/// of its own. Peaks and phases fall by the bytes taken; the largest storage gives first. The category and its storages
/// keep the rest; reserve_left_out_bytes is the number of bytes taken.
[[nodiscard]] Holdings without_reserve(Holdings holdings, Bytes most_bytes = std::numeric_limits<Bytes>::max());

}  // namespace tidemark::budget
