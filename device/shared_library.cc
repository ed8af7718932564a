#include "device/shared_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

namespace tidemark {

Result<SharedLibrary> SharedLibrary::open(const std::string& path) {
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle != nullptr) return SharedLibrary(handle);
  const char* const said = dlerror();
  std::string why = said != nullptr ? said : "the loader gave no reason";
  if (why.starts_with(path + ": ")) why.erase(0, path.size() + 2);  // the name once
  return infeasible(fmt::format("cannot load {}: {}", path, why));
}

SharedLibrary::SharedLibrary(SharedLibrary&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}

SharedLibrary& SharedLibrary::operator=(SharedLibrary&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

SharedLibrary::~SharedLibrary() {
  if (handle_ != nullptr) dlclose(handle_);
}

void* SharedLibrary::find(const char* symbol) const {
  return handle_ != nullptr ? dlsym(handle_, symbol) : nullptr;
}

void* SymbolReader::find(const char* symbol) const {
  for (const SharedLibrary& library : libraries_) {
    if (void* const found = library.find(symbol)) return found;
  }
  return nullptr;
}

std::string missing_text(const std::vector<std::string>& missing) {
  return fmt::format("{} function{} missing: {}", missing.size(), missing.size() == 1 ? " is" : "s are",
                     fmt::join(missing, ", "));
}

}  // namespace tidemark
