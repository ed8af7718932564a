#include "integrations/agreement/loss.h"

#include <fmt/format.h>

namespace tidemark::agreement {
namespace {

std::string name_of(const Place& place) {
  return fmt::format("section {} of pipeline rank {}", place.section, place.group);
}

std::string last_of(const Place& place) {
  return place.section < 0 ? "it has asked for no section yet" : "it asked last for " + name_of(place);
}

}  // namespace

std::string describe(const Loss& loss, std::int32_t size) {
  const std::string who = fmt::format("rank {} of the {} of the expert group", loss.rank, size);
  const std::string both =
      fmt::format("ranks {} and {} of the {} of the expert group", loss.rank, loss.other_rank, size);
  switch (loss.cause) {
    case LossCause::none:
      return "the expert group is whole";
    case LossCause::gone:
      return fmt::format("{} is gone: its process ended or its connection broke; {}", who, last_of(loss.at));
    case LossCause::late:
      return fmt::format("{}{} late: others have waited {} ms {}; {}", who,
                         loss.more > 0 ? fmt::format(" and {} more are", loss.more) : " is", loss.waited_ms,
                         loss.other_at.section < 0 ? "for the group to be complete" : "in " + name_of(loss.other_at),
                         last_of(loss.at));
    case LossCause::silent:
      return fmt::format(
          "{}, which counts the votes, has not answered for {} ms: it is stopped, or its host is gone; {}", who,
          loss.waited_ms, last_of(loss.at));
    case LossCause::left:
      return fmt::format("{} has left: its run failed, and its own error says why; {}", who, last_of(loss.at));
    case LossCause::closed:
      return fmt::format("{} has closed the group; {}", who, last_of(loss.at));
    case LossCause::out_of_step:
      return fmt::format("{} are out of step: rank {} asks for {}, rank {} for {}", both, loss.rank, name_of(loss.at),
                         loss.other_rank, name_of(loss.other_at));
    case LossCause::other_plan:
      return fmt::format("{} have different plans (fingerprints {:016x} and {:016x}), seen in {}", both, loss.at.plan,
                         loss.other_at.plan, name_of(loss.at));
    case LossCause::foreign:
      return fmt::format("{} sent what is no message of an expert group: another version of Tidemark?; {}", who,
                         last_of(loss.at));
  }
  return "the expert group is lost";
}

}  // namespace tidemark::agreement
