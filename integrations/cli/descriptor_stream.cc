#include "integrations/cli/descriptor_stream.h"

#include <unistd.h>

#include <cerrno>

namespace tidemark::cli {

int DescriptorStream::finish() {
  flush();
  return buffer_.error();
}

DescriptorStream::Buffer::int_type DescriptorStream::Buffer::overflow(int_type next) {
  if (sync() != 0) return traits_type::eof();
  if (!traits_type::eq_int_type(next, traits_type::eof())) sputc(traits_type::to_char_type(next));
  return traits_type::not_eof(next);
}

int DescriptorStream::Buffer::sync() {
  const char* from = pbase();
  while (error_ == 0 && from < pptr()) {
    const ssize_t written = ::write(fd_, from, static_cast<std::size_t>(pptr() - from));
    if (written >= 0) {
      from += written;
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
  setp(bytes_.data(), bytes_.data() + bytes_.size());
  return error_ == 0 ? 0 : -1;
}

}  // namespace tidemark::cli
