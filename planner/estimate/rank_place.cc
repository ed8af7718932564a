#include "planner/estimate/rank_place.h"

#include <algorithm>

namespace tidemark::estimate {

RankPlace place_of(const TrainingRun& run, std::int64_t rank) {
  const Parallel& parallel = run.parallel;
  const std::int64_t dense_group = parallel.data * parallel.context;
  const std::int64_t expert_ranks = parallel.expert_tensor * parallel.expert;
  RankPlace place{.rank = rank};
  std::int64_t within = rank;  // the rank's number among those of its stage
  if (parallel.pipeline_inside_data) {
    const std::int64_t inner = parallel.tensor * parallel.context;
    place.stage = rank / inner % parallel.pipeline;
    within = rank / (inner * parallel.pipeline) * inner + rank % inner;
  } else {
    const std::int64_t each = std::max<std::int64_t>(1, parallel.world / parallel.pipeline);
    place.stage = std::min(rank / each, parallel.pipeline - 1);
    within = rank % each;
  }
  place.dense_shard = within / parallel.tensor % dense_group;
  place.expert_shard = within / expert_ranks % parallel.expert_data;
  return place;
}

}  // namespace tidemark::estimate
