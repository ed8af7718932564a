#pragma once
// A stream into an open file that keeps the errno of what failed, which the streams of the library lose.

#include <array>
#include <ostream>
#include <streambuf>

namespace tidemark::cli {

class DescriptorStream final : public std::ostream {
 public:
  /// The descriptor remains the caller's, and open.
  explicit DescriptorStream(int fd) : std::ostream(nullptr), buffer_(fd) { rdbuf(&buffer_); }

  /// Writes what is left. 0, or the errno of the first write that failed; nothing is written behind it.
  [[nodiscard]] int finish();

 private:
  class Buffer final : public std::streambuf {
   public:
    explicit Buffer(int fd) : fd_(fd) { setp(bytes_.data(), bytes_.data() + bytes_.size()); }
    [[nodiscard]] int error() const { return error_; }

   protected:
    int_type overflow(int_type next) override;
    int sync() override;

   private:
    const int fd_;
    int error_ = 0;
    std::array<char, 1 << 16> bytes_;
  };

  Buffer buffer_;
};

}  // namespace tidemark::cli
