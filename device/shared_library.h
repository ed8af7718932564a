#pragma once
// A library loaded at run time, and a reader that fills a table of its functions and remembers what was missing. The
// library stays in the process after the last SharedLibrary is gone (RTLD_NODELETE): drivers keep threads.
// Threads: one thread per object.

#include <string>
#include <vector>

#include "core/result.h"

namespace tidemark {

class SharedLibrary {
 public:
  SharedLibrary() = default;
  /// `path` as for dlopen: a name without a slash is searched for. Error (infeasible): what the loader said.
  [[nodiscard]] static Result<SharedLibrary> open(const std::string& path);

  SharedLibrary(SharedLibrary&& other) noexcept;
  SharedLibrary& operator=(SharedLibrary&& other) noexcept;
  ~SharedLibrary();

  /// Null if the library has no such symbol, or none is open.
  [[nodiscard]] void* find(const char* symbol) const;

 private:
  explicit SharedLibrary(void* handle) : handle_(handle) {}

  void* handle_ = nullptr;
};

/// Looks a symbol up in several libraries, first come first served.
class SymbolReader {
 public:
  explicit SymbolReader(const std::vector<SharedLibrary>& libraries) : libraries_(libraries) {}

  /// `slot` gets the function; where no library has it, its name joins missing().
  template <class Function>
  void need(Function*& slot, const char* symbol) {
    want(slot, symbol);
    if (slot == nullptr) missing_.emplace_back(symbol);
  }
  /// As need(), but may stay null.
  template <class Function>
  void want(Function*& slot, const char* symbol) const {
    slot = reinterpret_cast<Function*>(find(symbol));
  }

  [[nodiscard]] const std::vector<std::string>& missing() const { return missing_; }

 private:
  [[nodiscard]] void* find(const char* symbol) const;

  const std::vector<SharedLibrary>& libraries_;
  std::vector<std::string> missing_;
};

/// `2 functions are missing: a, b`, for the message of whoever needs them.
[[nodiscard]] std::string missing_text(const std::vector<std::string>& missing);

}  // namespace tidemark
