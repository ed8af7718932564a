#pragma once
// The host device's memory as tests see it: at its addresses, in this process, and in the files behind it.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "device/host_device.h"

namespace tidemark {

[[nodiscard]] inline std::unique_ptr<Device> open_host(const HostDeviceOptions& options) {
  Result<std::unique_ptr<Device>> opened = open_host_device(options);
  EXPECT_TRUE(opened.ok());
  return opened.ok() ? std::move(opened).value() : nullptr;
}

inline void fill(Address at, Bytes bytes, char value) {
  std::memset(reinterpret_cast<void*>(at), value, static_cast<std::size_t>(bytes));
}

/// REQUIRES: there is a byte.
[[nodiscard]] inline bool all_are(Address at, Bytes bytes, char value) {
  const char* begin = reinterpret_cast<const char*>(at);
  return *begin == value && std::memcmp(begin, begin + 1, static_cast<std::size_t>(bytes - 1)) == 0;
}

/// What the memory files of this process's host devices have in pages.
[[nodiscard]] inline Bytes file_bytes() {
  Bytes bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    struct stat facts {};
    std::error_code gone;
    if (std::filesystem::read_symlink(entry, gone).string().find("tidemark_host_device") == std::string::npos) continue;
    if (stat(entry.path().c_str(), &facts) == 0) bytes += static_cast<Bytes>(facts.st_blocks) * 512;
  }
  return bytes;
}

}  // namespace tidemark
