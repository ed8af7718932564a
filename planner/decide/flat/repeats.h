#pragma once
// Repeats in a captured graph: stretches of ops that are alike, one after the other, such as the layers of a model's
// forward and of its backward. Found by what ops are to a search (cost, bytes, what they may do), by no name. So a
// schedule's decisions in one layer can be made in another (Repeats::replicate), and the search only looks for what
// differs.

#include <cstdint>
#include <utility>
#include <vector>

#include "planner/decide/flat/problem.h"
#include "planner/decide/flat/state.h"

namespace tidemark::decide::flat {

class Repeats {
 public:
  /// The problem must outlive this. O(ops * longest layer looked for), in labels compared, however alike the ops are;
  /// a tenth of a second for 40,000.
  explicit Repeats(const Problem& problem);

  /// How many layers there are, counted by the stretch with most ops that may be recomputed; below 2: nothing repeats.
  [[nodiscard]] std::int32_t layers() const { return layers_; }
  /// Of what an op makes; -1: it is in no stretch, or in a repeat that belongs to no layer.
  [[nodiscard]] std::int32_t layer_of(std::int32_t op) const { return place_[static_cast<std::size_t>(op)].layer; }

  /// Makes the state the schedule with the decisions of layer `from` in layers [first, last] in place of their own, as
  /// far as there is a place for them. Recomputations that serve nothing then are left out.
  void replicate(const Solution& solution, std::int32_t from, std::int32_t first, std::int32_t last,
                 State& state) const;

 private:
  struct Stretch {
    std::int32_t begin = 0, length = 0, count = 0;
    std::vector<std::int32_t> layer_of;  ///< per repeat; -1: it belongs to none, or another one was first
    std::vector<std::pair<std::int32_t, std::int32_t>>
        repeats;  ///< of layers that have one: (layer, repeat), ascending
    [[nodiscard]] std::int32_t repeat_of(std::int32_t layer) const;  ///< -1: none
  };
  struct Place {
    std::int32_t stretch = -1, layer = -1, offset = 0;
  };
  void find_stretches(const std::vector<std::uint64_t>& labels);
  void number_layers();
  [[nodiscard]] std::int32_t most_read_layer(std::int32_t begin, std::int32_t end, std::int32_t counting) const;
  [[nodiscard]] std::int32_t moved(std::int32_t op, std::int32_t layers) const;
  /// 0: there is no such place.
  [[nodiscard]] Key moved(Key key, std::int32_t layers) const;
  [[nodiscard]] std::int32_t moved_storage(std::int32_t storage, std::int32_t layers) const;

  const Problem& p_;
  std::int32_t layers_ = 0;
  std::vector<Stretch> stretches_;
  std::vector<Place> place_;  ///< per op
};

}  // namespace tidemark::decide::flat
