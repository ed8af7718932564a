// Asks core/verify of plans of captured steps: is the program sound for the graph that stands beside it? A test program
// of tests/regression/captured_mutants_test.py.
//
//   verify_plans < paths     one path of a plan.json a line; answers with one line of JSON each
//
// Members: `refused`: the reader's words; `broken`: the verifier's. Neither: the plan is sound.

#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "core/verify.h"
#include "integrations/formats/file.h"
#include "integrations/formats/program_file.h"

namespace tidemark {
namespace {

nlohmann::json look_at(const std::string& path) {
  const Result<std::string> text = formats::read_file(path);
  if (!text.ok()) return {{"refused", text.error().message}};
  const Result<formats::PlanFile> file = formats::read_plan_file(text.value(), path);
  if (!file.ok()) return {{"refused", file.error().message}};
  if (file.value().graph == nullptr) return {{"refused", "the plan has no graph"}};
  for (const formats::PlanFile::Rank& rank : file.value().ranks)
    if (const auto broken = verify_program(*file.value().graph, rank.program)) return {{"broken", broken->detail}};
  return nlohmann::json::object();
}

}  // namespace
}  // namespace tidemark

int main() {
  for (std::string path; std::getline(std::cin, path);) std::cout << tidemark::look_at(path).dump() << std::endl;
}
