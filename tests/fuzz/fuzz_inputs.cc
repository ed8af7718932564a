// fuzz_inputs TARGET ROUNDS SEED   damages small inputs, and prints how far they came
// fuzz_inputs TARGET FILE          runs one input
// fuzz_inputs --seeds FOLDER       writes the valid inputs of every reader, as its corpus has them
//
// The same arguments give the same inputs, so a crash comes again under a debugger. What breaks a promise is left in
// fuzz_inputs.last. Exit status: 0 all well; 1 a broken promise; 2 bad usage.

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/fuzz/input_bodies.h"
#include "tests/fuzz/mutation.h"
#include "tests/support/data.h"

namespace {

using tidemark::testing::FuzzTarget;

bool parse(std::string_view text, std::uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

bool is_well(const FuzzTarget& target, const std::string& bytes, tidemark::testing::Reached& reached) {
  std::optional<std::string> wrong;
  try {
    wrong = target.run(bytes, reached);
  } catch (const std::exception& exception) {
    wrong = std::string("it throws: ") + exception.what();
  }
  if (wrong) std::fprintf(stderr, "%s\n", wrong->c_str());
  return !wrong;
}

bool run_rounds(const FuzzTarget& target, std::uint64_t rounds, std::uint64_t seed) {
  tidemark::testing::Mutator mutator(target.seeds(), target.words(), seed, target.wounds);
  tidemark::testing::Reached reached;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const std::string bytes = mutator.next();
    if (is_well(target, bytes, reached)) continue;
    std::ofstream("fuzz_inputs.last", std::ios::binary) << bytes;
    return false;
  }
  for (const auto& [place, count] : reached) std::printf("%10lld %s\n", static_cast<long long>(count), place.c_str());
  return true;
}

/// FOLDER/READER/valid_N: a corpus begins with what is read as it is.
bool write_seeds(const std::filesystem::path& folder) {
  for (const FuzzTarget& target : tidemark::testing::fuzz_targets()) {
    if (tidemark::testing::find_reader(target.name) == nullptr) continue;
    std::filesystem::create_directories(folder / target.name);
    int number = 0;
    for (const std::string& seed : target.seeds())
      if (!(std::ofstream(folder / target.name / ("valid_" + std::to_string(++number))) << seed)) return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 2 && words[0] == "--seeds") return write_seeds(words[1]) ? 0 : 2;
  for (const FuzzTarget& target : tidemark::testing::fuzz_targets()) {
    std::uint64_t rounds = 0, seed = 0;
    if (words.empty() || words[0] != target.name) continue;
    tidemark::testing::Reached reached;
    if (words.size() == 2) return is_well(target, tidemark::testing::text_of(words[1]), reached) ? 0 : 1;
    if (words.size() == 3 && parse(words[1], rounds) && parse(words[2], seed))
      return run_rounds(target, rounds, seed) ? 0 : 1;
  }
  std::fputs("usage: fuzz_inputs TARGET ROUNDS SEED, or FILE instead of ROUNDS SEED, or --seeds FOLDER; targets:",
             stderr);
  for (const FuzzTarget& target : tidemark::testing::fuzz_targets())
    std::fprintf(stderr, " %s", std::string(target.name).c_str());
  std::fputs("\n", stderr);
  return 2;
}
