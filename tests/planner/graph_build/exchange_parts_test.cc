// Expert exchange in parts: together they are the whole exchange, and one travels while another is computed.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "core/graph.h"
#include "planner/graph_build/liveness.h"
#include "planner/graph_build/step_graph.h"
#include "tests/support/graph_checks.h"
#include "tests/support/pangu.h"

namespace tidemark::graph_build {
namespace {

Graph built(JobSpec job, std::int32_t parts) {
  job.parallel.expert_exchange_parts = parts;
  EXPECT_TRUE(find_problems(job).empty());
  Result<Graph> graph = build_step_graph(job, testing::ascend_910b(), 0, 1.0);
  EXPECT_TRUE(graph.ok());
  return graph.ok() ? std::move(graph).value() : Graph{};
}

std::map<std::string, JobSpec> jobs() {
  JobSpec flat = testing::pangu_job();
  flat.parallel.hierarchical_expert_communication = flat.parallel.overlap_forward_backward = false;
  JobSpec split = testing::pangu_job();
  split.parallel.tensor_extends_expert = split.parallel.hierarchical_expert_communication = false;
  split.model.moe.probabilities = MoeSpec::Probabilities::in_activation;  // experts add to the router's gradient
  JobSpec folded = testing::mixtral_job();
  folded.model.moe.probabilities = MoeSpec::Probabilities::in_activation;
  return {{"hierarchical", testing::pangu_job()}, {"flat", flat}, {"split", split}, {"folded", folded}};
}

struct Work {
  double flops = 0, link_bytes = 0;
  std::int64_t times = 0;
};

std::string whole_name(const std::string& op) {
  return op.substr(0, op.find(".part"));
}

std::map<std::string, Work> work_by_op(const Graph& graph) {
  std::map<std::string, Work> work;
  for (std::size_t op = 0; op < graph.ops.size(); ++op) {
    const OpTemplate& t = graph.template_of(id_of<OpId>(op));
    Work& of = work[whole_name(t.name)];
    of.flops += t.cost.flops;
    of.link_bytes += t.cost.link_bytes;
    ++of.times;
  }
  return work;
}

std::map<std::string, std::int64_t> rows_by_storage(const Graph& graph) {
  std::map<std::string, std::int64_t> rows;
  for (const Storage& storage : graph.storages) {
    const StorageTemplate& t = graph.storage_templates[row(storage.storage_template)];
    if (t.routed_rows > 0) rows[t.name] += t.routed_rows * t.routed_row_bytes;
  }
  return rows;
}

bool every_part_has_all_ops(const Graph& graph, std::int32_t parts) {
  std::map<std::string, std::int32_t> named;
  for (const OpTemplate& op : graph.op_templates)
    if (op.name.find(".part") != std::string::npos) ++named[whole_name(op.name)];
  std::int32_t blocks = 0;
  for (const auto& [op, times] : named) blocks = std::max(blocks, times / parts);
  return !named.empty() && std::ranges::all_of(named, [&](const auto& op) { return op.second == blocks * parts; });
}

/// Storages of received rows of one part are all of as many rows: what is gathered is what is computed.
bool rows_of_parts_agree(const Graph& graph) {
  std::map<std::pair<std::size_t, std::string>, std::set<std::int64_t>> rows;
  for (std::size_t b = 0; b < graph.blocks.size(); ++b) {
    const Block& block = graph.blocks[b];
    for (std::int32_t local = 0; local < block.storage_count; ++local) {
      const auto& s = graph.storage_templates[row(block.first_storage_template) + static_cast<std::size_t>(local)];
      const bool computed = s.name == "fc1_in" || s.name == "fc1_out" || s.name.ends_with("_gathered_rows");
      if (computed) rows[{b, s.module_path}].insert(s.routed_rows);
    }
  }
  return std::ranges::all_of(rows, [](const auto& part) { return part.second.size() == 1; });
}

/// Each device of a tensor group brings its rows of a part, and the experts have those of all.
TEST(ExchangeParts, GatherWhatIsComputed) {
  JobSpec job = testing::small_job();
  job.parallel.tensor = 2;
  job.parallel.sequence_parallel = true;
  job.parallel.tensor_extends_expert = false;
  job.parallel.expert = 2;
  job.parallel.data = 2;
  job.parallel.global_batch = 2 * job.parallel.micro_batch * job.parallel.data * job.parallel.pipeline;
  const Graph graph = built(job, 3);
  std::map<std::string, std::map<std::string, std::int64_t>> rows;
  for (const StorageTemplate& s : graph.storage_templates)
    if (s.module_path.starts_with("mlp.experts.part")) rows[s.module_path][s.name] = s.routed_rows;
  ASSERT_EQ(rows.size(), 3U);
  for (const auto& [part, of] : rows) {
    EXPECT_EQ(of.at("fc1_in"), 2 * of.at("unpermute_in")) << part;
    EXPECT_EQ(of.at("fc1_in"), of.at("dispatch_gathered_rows")) << part;
  }
}

TEST(ExchangeParts, AreTheWholeExchangeTogether) {
  for (const auto& [name, job] : jobs()) {
    const Graph whole = built(job, 1);
    for (const std::int32_t parts : {2, 3, 7}) {  // neither 3 nor 7 divides the tokens
      const Graph cut = built(job, parts);
      EXPECT_EQ(testing::check_graph(cut), "") << name << " in " << parts;
      EXPECT_EQ(rows_by_storage(cut), rows_by_storage(whole)) << name << " in " << parts;
      const auto before = work_by_op(whole), behind = work_by_op(cut);
      ASSERT_EQ(before.size(), behind.size());
      std::int64_t in_parts = 0;
      for (const auto& [op, of] : before) {
        const Work& now = behind.at(op);
        EXPECT_NEAR(now.flops, of.flops, 1e-9 * of.flops) << name << ": " << op;
        EXPECT_NEAR(now.link_bytes, of.link_bytes, 1e-9 * of.link_bytes) << name << ": " << op;
        EXPECT_TRUE(now.times == of.times || now.times == parts * of.times) << name << ": " << op;
        if (now.times > of.times) ++in_parts;
      }
      EXPECT_GT(in_parts, 15) << name;
      EXPECT_EQ(behind.at("moe.unpermute").times, before.at("moe.unpermute").times);
      EXPECT_TRUE(every_part_has_all_ops(cut, parts)) << name << " in " << parts;
      EXPECT_TRUE(rows_of_parts_agree(cut)) << name << " in " << parts;
    }
  }
}

/// Places of an op of the first site with experts in issue order, one a part.
std::vector<std::size_t> places(const Graph& graph, const std::string& op) {
  std::vector<std::size_t> found;
  SiteId site = kNone<SiteId>;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    if (whole_name(graph.template_of(id_of<OpId>(i)).name) != op) continue;
    if (site == kNone<SiteId>) site = graph.ops[i].site;
    if (graph.ops[i].site == site) found.push_back(i);
  }
  return found;
}

TEST(ExchangeParts, APartTravelsWhileTheOneBeforeIsComputed) {
  const Graph graph = built(testing::mixtral_job(), 3);
  struct Chain {
    const char *out, *first, *last, *back;
  };
  for (const Chain& chain : {Chain{"moe.dispatch_exchange_intra_node", "moe.sort_rows", "moe.unsort_rows",
                                   "moe.combine_exchange_intra_node"},
                             Chain{"moe.combine_backward_exchange_intra_node", "moe.unsort_rows_backward",
                                   "moe.sort_rows_backward", "moe.dispatch_backward_exchange_intra_node"}}) {
    const auto out = places(graph, chain.out), first = places(graph, chain.first), last = places(graph, chain.last),
               back = places(graph, chain.back);
    for (const auto* of : {&out, &first, &last, &back}) ASSERT_EQ(of->size(), 3U) << chain.out;
    for (std::size_t part = 0; part < 3; ++part) {
      EXPECT_LT(out[part], first[part]);
      EXPECT_LT(last[part], back[part]);
      if (part == 0) continue;
      EXPECT_LT(out[part], first[part - 1]);  // under way when the part before it is taken up
      EXPECT_LT(back[part - 1], last[part]);  // on its way back before the next is done
      EXPECT_LT(last[part - 1], first[part]);
    }
  }
}

/// Names of recipes of MoE layers that restore what dispatch brings, with the number of what they restore.
std::vector<std::size_t> dispatch_outputs(const Graph& graph) {
  std::vector<std::size_t> outputs;
  for (const Block& block : graph.blocks) {
    if (block.name != "moe_layer") continue;
    for (std::int32_t r = 0; r < block.recipe_count; ++r) {
      const Recipe& recipe = graph.recipes[row(block.first_recipe) + static_cast<std::size_t>(r)];
      if (recipe.name == "fc1_in") outputs.push_back(recipe.outputs.size());
    }
  }
  return outputs;
}

TEST(ExchangeParts, AreMadeAgainOneByOneUnlessTokensAreGatheredForAll) {
  EXPECT_EQ(dispatch_outputs(built(testing::mixtral_job(), 2)), (std::vector<std::size_t>{1, 1}));
  EXPECT_EQ(dispatch_outputs(built(testing::pangu_job(), 2)), std::vector<std::size_t>{2});
  EXPECT_EQ(dispatch_outputs(built(testing::pangu_job(), 1)), std::vector<std::size_t>{1});
}

/// A part that is back waits for the others to be summed up; it stays, since a section may not read in what it copied
/// out.
TEST(ExchangeParts, StayUntilTheSectionEnds) {
  const Graph graph = built(testing::pangu_job(), 3);
  std::int64_t waiting = 0;
  std::map<StorageId, std::vector<Gap>> gaps;
  const Liveness liveness = analyse_liveness(graph);
  for (const Gap& gap : find_gaps(graph, liveness, 1)) gaps[gap.storage].push_back(gap);
  for (std::size_t s = 0; s < graph.storages.size(); ++s) {
    const auto id = id_of<StorageId>(s);
    if (graph.template_of(id).name != "unpermute_in") continue;
    const auto touches = liveness.touches_of(id);
    for (std::size_t i = 1; i < touches.size(); ++i) {
      const bool ends = graph.template_of(touches[i]).ends_rows;
      const bool is_gap =
          std::ranges::find(gaps[id], static_cast<std::int32_t>(i - 1), &Gap::ordinal) != gaps[id].end();
      const bool apart = static_cast<std::int32_t>(touches[i]) - static_cast<std::int32_t>(touches[i - 1]) > 1;
      EXPECT_EQ(is_gap, apart && !ends) << s;
      if (apart && ends) ++waiting;
    }
  }
  EXPECT_GT(waiting, 100);
}

}  // namespace
}  // namespace tidemark::graph_build
