#pragma once
// Records one block of the step: its storage templates, its forward and backward ops, and its recipes. What comes out
// is a *program*, ops whose accesses name a scope and a position in it; stamping a program at a site is then a copy
// with one addition per access.
//
// Versions: version 0 is what a storage holds when the step begins (nothing, unless it is static); its n-th write makes
// version n. Within a site writes happen in one fixed order, so the builder knows every version but those of gradients
// that all micro-batches add to, which are counted when stamped.
//
// Cost: proportional to the ops of one block; run once per kind of block.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/graph.h"
#include "planner/cost/launch_counts.h"
#include "planner/graph_build/parameter_groups.h"

namespace tidemark::graph_build {

/// Where an op finds a storage.
enum class Scope : std::uint8_t {
  own,                   ///< the site it runs at
  parameters,            ///< static storages of its layer, embedding, head or MTP module
  embedding_parameters,  ///< those of the embedding of this rank
  head_parameters,       ///< those of the head of this rank
  output,                ///< where the block's result goes: the input of what follows, or a send buffer
  input,                 ///< the block's input, where another site owns it
  input_gradient,        ///< where the gradient of the block's input goes
  output_gradient,       ///< the gradient of the block's result
};
inline constexpr std::size_t kScopeCount = 8;

struct Ref {
  Scope scope = Scope::own;
  std::int32_t local = 0;
  friend bool operator==(const Ref&, const Ref&) = default;
};

inline constexpr Ref kOutput{.scope = Scope::output};
inline constexpr Ref kInput{.scope = Scope::input};
inline constexpr Ref kInputGradient{.scope = Scope::input_gradient};
inline constexpr Ref kOutputGradient{.scope = Scope::output_gradient};

/// Versions known only when a program is stamped.
inline constexpr std::int32_t kNextVersion = -1;     ///< one more than the storage has
inline constexpr std::int32_t kCurrentVersion = -2;  ///< what the storage has
inline constexpr std::int32_t kFinalVersion = -3;    ///< the output gradient once everybody has added to it

struct ProgramAccess {
  Scope scope = Scope::own;
  AccessKind kind = AccessKind::read;
  std::int32_t local = 0;
  std::int32_t version = 0;
};

struct PassProgram {
  struct Entry {
    OpTemplateId op_template = kNone<OpTemplateId>;
    std::int32_t first_access = 0;
  };
  std::vector<Entry> ops;
  std::vector<ProgramAccess> accesses;

  [[nodiscard]] std::span<const ProgramAccess> accesses_of(std::size_t op) const;
};

struct BlockProgram {
  BlockId block = kNone<BlockId>;
  PassProgram forward, backward;
};

struct OpDraft {
  std::string name;
  Lane lane = Lane::compute;
  OpCost cost;
  bool routed = false;
  bool collective = false;
  bool ends_rows = false;
  bool replays_routing = false;  ///< in a recipe: reads recorded routing instead of deciding it again
  std::vector<Ref> reads;
  std::vector<Ref> writes;
  double backward_launches = 0;  ///< BlockBuilder's
};

class BlockBuilder {
 public:
  /// `late_weight_gradients`: dW ops wait until flush() is called; otherwise they follow at once.
  BlockBuilder(std::string name, bool late_weight_gradients);

  /// Makes the groups of a static site known by name under `scope`.
  void bind_parameters(Scope scope, const std::vector<ParameterGroup>& groups);
  [[nodiscard]] Ref parameter(std::string_view group) const;
  [[nodiscard]] Ref gradient(std::string_view group) const;
  [[nodiscard]] Ref optimizer_state(std::string_view group) const;
  /// parameter(group) and gradient(group) are own storages from here on, and the static ones those of shards.
  void stand_in(std::string_view group, Ref parameter);
  void stand_in_gradient(std::string_view group, Ref gradient);
  [[nodiscard]] Ref parameter_shard(std::string_view group) const { return bound(group).parameter; }
  [[nodiscard]] Ref gradient_shard(std::string_view group) const;

  // Storages. `module` applies to all that follow.
  void module(std::string path) { module_ = std::move(path); }
  Ref saved(std::string name, Bytes bytes);
  /// Saved, and quicker gathered again than copied to host memory and back.
  Ref gathered(std::string name, Bytes bytes);
  Ref temporary(std::string name, Bytes bytes);
  /// A message buffer.
  Ref buffer(std::string name, Bytes bytes);
  /// Lives all step.
  Ref fixed(std::string name, StorageRole role, Bytes bytes);
  /// Rows that routing makes.
  Ref routed(std::string name, std::int64_t rows, Bytes row_bytes, bool saved, RowsOf rows_of);
  void view(Ref storage, TensorView tensor);
  [[nodiscard]] bool is_saved(Ref storage) const;
  /// Written once before the block runs, by another block or a receive.
  void written_elsewhere(Ref storage);

  // Ops, in program order. `tag` names the recipe that later forward ops belong to; empty: none.
  void tag(std::string recipe) { tag_ = std::move(recipe); }
  void op(OpPhase phase, OpDraft draft);
  /// A dW op: now, or at the next flush.
  void weight_gradient(OpDraft draft);
  void flush();
  /// Of kernels on the device that follow, backward launches as many times as forward; they share them as
  /// OpCost::launches says. Returns what held before.
  double backward_launches(double of_forward) { return std::exchange(backward_launches_, of_forward); }
  /// Ops and recipes that follow, until join_parts(), are of one of several parts that are done alike, numbered from 0;
  /// ops are called after it.
  void part(std::int32_t number);
  /// Puts the ops of all parts in an order in which one part computes while another communicates: each part goes from
  /// stage to stage, which compute or communicate in turn, one stage behind the part before it. REQUIRES: a storage
  /// that several parts write is written in one stage.
  void join_parts();

  /// The forward ops tagged `name`, of this part where there are parts, restore `outputs`. Dropped if one of them needs
  /// another site's storage.
  void recipe(const std::string& name, const std::vector<Ref>& outputs);

  /// Appends the block to the graph. The builder is used up.
  [[nodiscard]] BlockProgram finish(Graph& graph);

 private:
  static constexpr std::int32_t kWhole = -1;
  struct Recorded {
    OpTemplate op;
    std::string tag;
    std::int32_t part = kWhole;
    bool replays_routing = false;
    double backward_launches = 0;  ///< of those of the same number, of the forward's
    std::vector<ProgramAccess> accesses;
    OpTemplateId id = kNone<OpTemplateId>;
  };
  struct BoundGroup {
    std::string name;
    Ref parameter;
    std::optional<Ref> own_parameter = std::nullopt, own_gradient = std::nullopt;
  };
  [[nodiscard]] const BoundGroup& bound(std::string_view group) const;
  struct RecipeDraft {
    std::string name;
    std::int32_t part = kWhole;
    std::vector<std::int32_t> outputs;
  };

  Ref add(StorageTemplate storage);
  [[nodiscard]] OpDraft named(OpDraft draft) const;
  void record(OpPhase phase, OpDraft draft);
  std::int32_t& writes_of(Ref ref);
  ProgramAccess read_access(Ref ref);
  ProgramAccess write_access(Ref ref);
  [[nodiscard]] static bool is_step_of(const RecipeDraft& draft, const Recorded& op);
  [[nodiscard]] bool needs_other_sites(const RecipeDraft& draft) const;
  [[nodiscard]] Recipe make_recipe(const RecipeDraft& draft) const;
  static void interleave(std::span<Recorded> parts);
  void share_backward_launches();
  [[nodiscard]] static PassProgram make_program(const std::vector<Recorded>& ops);

  std::string name_;
  std::string module_;
  std::string tag_;
  std::int32_t part_ = kWhole;
  std::size_t first_forward_ = 0, first_backward_ = 0;  ///< of the parts that are not joined yet
  bool late_weight_gradients_;
  double backward_launches_ = cost::kBackwardLaunches;
  std::vector<StorageTemplate> storages_;
  std::vector<std::int32_t> own_writes_;                  ///< per own storage
  std::array<std::int32_t, kScopeCount> scope_writes_{};  ///< of scopes that are one storage
  std::vector<BoundGroup> groups_;
  std::vector<Recorded> forward_, backward_;
  std::vector<OpDraft> pending_;
  std::vector<RecipeDraft> recipes_;
};

}  // namespace tidemark::graph_build
