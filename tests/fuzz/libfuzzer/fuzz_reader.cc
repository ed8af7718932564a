// The libFuzzer target of the reader that $TIDEMARK_READER names (reader_bodies.h): one program for all of them, since
// what takes time is its building. scripts/fuzz runs it; `TIDEMARK_READER=job fuzz_reader FILE` repeats one input.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "tests/fuzz/reader_bodies.h"

namespace {

const tidemark::testing::ReaderBody* g_reader = nullptr;

[[noreturn]] void stop(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* const name = std::getenv("TIDEMARK_READER");
  g_reader = tidemark::testing::find_reader(name == nullptr ? "" : name);
  if (g_reader != nullptr) return 0;
  std::fputs("fuzz_reader: TIDEMARK_READER must be one of", stderr);
  for (const tidemark::testing::ReaderBody& reader : tidemark::testing::reader_bodies())
    std::fprintf(stderr, " %s", std::string(reader.name).c_str());
  std::fputs("\n", stderr);
  std::_Exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tidemark::testing::Reached reached;
  tidemark::testing::Verdict verdict;
  try {
    // A copy of its own, so that a read behind its end is seen.
    verdict = g_reader->run(std::string(reinterpret_cast<const char*>(data), size), reached);
  } catch (const std::exception& exception) {
    stop(std::string("it throws: ") + exception.what());
  }
  if (verdict) stop(*verdict);
  return 0;
}
