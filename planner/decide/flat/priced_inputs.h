#pragma once
// What best becomes of the dead inputs of a second run where a byte that lives on until then has a price: it lives on,
// is paged in, or runs again with the inputs that are dead in turn, whichever is cheapest. At a low price little runs
// again; at a high one nothing lives on that can be had back; between them what is dear for its size lives on and the
// rest is made from it, however long that chain is.

#include <cstdint>
#include <vector>

#include "planner/decide/flat/random.h"
#include "planner/decide/flat/recompute.h"
#include "planner/decide/flat/state.h"

namespace tidemark::decide::flat {

class PricedInputs {
 public:
  /// The state must outlive this; choices are not renewed as it changes.
  explicit PricedInputs(const State& state);

  [[nodiscard]] bool has_pages() const { return page_price_ > 0; }
  /// In cost quanta a byte: around what ops cost for what they write, or around what pages cost.
  [[nodiscard]] double draw_price(Random& random) const;

  struct Choice {
    double cost = 0;  ///< inputs that two others share count twice
    Input input = Input::lives_on;
  };
  /// Choices from here on are for this second run. REQUIRES: price > 0.
  void begin(Key rerun, double price);
  /// REQUIRES: begin() was called; the storage is not there at the run.
  [[nodiscard]] Choice choose(std::int32_t storage) { return choose(storage, 0); }
  /// Storages looked at so far.
  [[nodiscard]] std::int64_t looked() const { return looked_; }

 private:
  Choice choose(std::int32_t storage, int depth);

  const State& state_;
  double op_price_ = 0, page_price_ = 0;  ///< means; page_price_ < 0: nothing can be paged
  Key rerun_ = 0;
  double price_ = 0;
  std::vector<Choice> known_;          ///< per storage, of this run where ...
  std::vector<std::int64_t> made_in_;  ///< ... this is `begun_`
  std::int64_t begun_ = 0, looked_ = 0, most_looked_ = 0;
};

}  // namespace tidemark::decide::flat
