#include "device/shared_library.h"

#include <gtest/gtest.h>

#include <utility>

namespace tidemark {
namespace {

TEST(SharedLibrary, SaysWhatTheLoaderSaid) {
  const auto missing = SharedLibrary::open("libno_such_library.so.7");
  ASSERT_FALSE(missing.ok());
  const std::string& said = missing.error().message;
  EXPECT_NE(said.find("libno_such_library.so.7: "), std::string::npos) << said;
  EXPECT_EQ(said.find("libno_such_library.so.7"), said.rfind("libno_such_library.so.7")) << "once: " << said;
}

TEST(SharedLibrary, FindsSymbolsAndSurvivesMoves) {
  auto opened = SharedLibrary::open("libm.so.6");
  ASSERT_TRUE(opened.ok());
  SharedLibrary library = std::move(opened).value();
  EXPECT_NE(library.find("cos"), nullptr);
  EXPECT_EQ(library.find("tidemark_no_such_symbol"), nullptr);
  const SharedLibrary moved = std::move(library);
  EXPECT_NE(moved.find("cos"), nullptr);
  EXPECT_EQ(SharedLibrary().find("cos"), nullptr);
}

TEST(SymbolReader, TakesTheFirstAndRemembersWhatIsMissing) {
  std::vector<SharedLibrary> libraries;
  libraries.push_back(std::move(SharedLibrary::open("libm.so.6")).value());
  libraries.push_back(std::move(SharedLibrary::open("libc.so.6")).value());
  SymbolReader symbols(libraries);
  double (*cosine)(double) = nullptr;
  std::size_t (*length)(const char*) = nullptr;
  void (*none)() = nullptr;
  symbols.need(cosine, "cos");
  symbols.need(length, "strlen");
  symbols.need(none, "tidemark_no_such_symbol");
  symbols.want(none, "tidemark_nor_this");
  ASSERT_NE(cosine, nullptr);
  EXPECT_EQ(cosine(0.0), 1.0);
  ASSERT_NE(length, nullptr);
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(missing_text(symbols.missing()), "1 function is missing: tidemark_no_such_symbol");
}

}  // namespace
}  // namespace tidemark
