// Expert groups of the C interface.

#include <memory>
#include <string>

#include "core/row_sections.h"
#include "integrations/c_api/handles.h"
#include "integrations/c_api/structs.h"

using namespace tidemark;         // NOLINT: the functions below have the C interface's names
using namespace tidemark::c_api;  // NOLINT

namespace {

constexpr std::int32_t kMostRanks = 4096;
constexpr std::int64_t kMostTimeoutMs = 86'400'000;
constexpr std::int64_t kDefaultTimeoutMs = 600'000;

Outcome check_rank(std::int32_t rank, std::int32_t size) {
  if (size < 1 || size > kMostRanks)
    return invalid("size is " + std::to_string(size) + "; it must be from 1 to " + std::to_string(kMostRanks));
  if (rank < 0 || rank >= size)
    return invalid("rank is " + std::to_string(rank) + "; it must be from 0 to " + std::to_string(size - 1));
  return {};
}

/// Of calls on a group: a rank that is lost, or the group, is no "no" to a question.
Outcome outcome_of_group(const Error& error) {
  if (error.code == Error::Code::infeasible) return {.status = TIDEMARK_STATUS_PEER_LOST, .text = error.message};
  return outcome_of(error);
}

}  // namespace

extern "C" {

tidemark_status tidemark_expert_group_open(const char* address, int32_t rank, int32_t size,
                                           const tidemark_expert_group_options* options, tidemark_expert_group** group,
                                           tidemark_error** error) noexcept {
  if (group != nullptr) *group = nullptr;
  return guarded(error, [&]() -> Outcome {
    if (group == nullptr) return invalid("group is NULL");
    if (Outcome o = check_rank(rank, size); !o.ok()) return o;
    if (address == nullptr && size > 1) return invalid("address is NULL");
    tidemark_expert_group_options known;
    if (Outcome o = read_options(options, "tidemark_expert_group_options", known); !o.ok()) return o;
    if (Outcome o =
            check_numbers("tidemark_expert_group_options",
                          {{.name = "timeout_ms", .value = known.timeout_ms, .least = 1, .most = kMostTimeoutMs}});
        !o.ok())
      return o;
    const std::int64_t timeout_ms = known.timeout_ms > 0 ? known.timeout_ms : kDefaultTimeoutMs;
    Result<std::unique_ptr<agreement::ExpertGroup>> opened =
        agreement::ExpertGroup::open(address == nullptr ? "" : address,
                                     {.rank = rank, .size = size, .timeout = agreement::Milliseconds(timeout_ms)});
    if (!opened) return outcome_of_group(opened.error());
    *group = new tidemark_expert_group{.group = std::move(opened).value()};
    return {};
  });
}

void tidemark_expert_group_close(tidemark_expert_group* group) noexcept {
  delete group;
}

tidemark_status tidemark_expert_group_agree(tidemark_expert_group* group, int32_t pipeline_rank, int32_t section,
                                            int32_t wanted, int32_t chunks, int32_t* answer,
                                            tidemark_error** error) noexcept {
  return guarded(error, [&]() -> Outcome {
    if (group == nullptr) return invalid("group is NULL");
    if (answer == nullptr) return invalid("answer is NULL");
    if (pipeline_rank < 0 || section < 0) return invalid("pipeline_rank or section is negative");
    if (chunks < 0 || chunks > kMostChunks)
      return invalid("chunks is " + std::to_string(chunks) + "; it must be from 0 to " + std::to_string(kMostChunks));
    const Result<std::int32_t> told = group->group->seat().ask(
        {.place = {.group = pipeline_rank, .section = section}, .wanted = wanted != 0 ? 1 : 0, .chunks = chunks});
    if (!told) return outcome_of_group(told.error());
    *answer = told.value();
    return {};
  });
}

tidemark_status tidemark_expert_group_leave(tidemark_expert_group* group, tidemark_error** error) noexcept {
  return guarded(error, [&]() -> Outcome {
    if (group == nullptr) return invalid("group is NULL");
    group->group->seat().leave();
    return {};
  });
}

}  // extern "C"
