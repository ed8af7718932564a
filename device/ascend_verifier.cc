#include "device/ascend_verifier.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "device/pattern.h"

namespace tidemark::acl {
namespace {

constexpr Bytes kPieceBytes = 4 * kMiB;
constexpr Bytes kWord = sizeof(std::uint64_t);
static_assert(kPieceBytes % kWord == 0, "every piece begins with a whole word");

/// One piece of a touch, handed to a host function, which deletes it.
struct Piece {
  void* buffer = nullptr;
  Bytes bytes = 0;
  std::uint64_t word = 0;  ///< the pattern's word at the beginning of the piece
};

struct CheckedTouch {
  std::shared_ptr<Verifier::Findings> findings;  ///< outlives the device if ACL runs a late host function
  Mismatch mismatch;
  bool found = false;  ///< pieces of a touch run one after the other
};

struct CheckedPiece {
  Piece piece;
  std::shared_ptr<CheckedTouch> touch;
};

bool holds_words(const Piece& piece) {
  const auto* at = static_cast<const unsigned char*>(piece.buffer);
  std::uint64_t word = piece.word;
  Bytes left = piece.bytes;
  for (; left > 0; left -= kWord, at += kWord, word += kPatternStep) {
    if (std::memcmp(at, &word, static_cast<std::size_t>(std::min(left, kWord))) != 0) return false;
  }
  return true;
}

void write_words(const Piece& piece) {
  auto* at = static_cast<unsigned char*>(piece.buffer);
  std::uint64_t word = piece.word;
  Bytes left = piece.bytes;
  for (; left > 0; left -= kWord, at += kWord, word += kPatternStep) {
    std::memcpy(at, &word, static_cast<std::size_t>(std::min(left, kWord)));
  }
}

void run_check(void* argument) {
  const std::unique_ptr<CheckedPiece> checked(static_cast<CheckedPiece*>(argument));
  CheckedTouch& touch = *checked->touch;
  if (touch.found || holds_words(checked->piece)) return;
  touch.found = true;
  const std::lock_guard lock(touch.findings->mutex);
  if (touch.findings->count++ == 0) touch.findings->first = touch.mismatch;
}

void run_fill(void* argument) {
  const std::unique_ptr<Piece> piece(static_cast<Piece*>(argument));
  write_words(*piece);
}

void run_sleep(void* argument) {
  const std::unique_ptr<std::int64_t> duration_ns(static_cast<std::int64_t*>(argument));
  std::this_thread::sleep_for(std::chrono::nanoseconds(*duration_ns));
}

/// Hands `argument` to a host function that will delete it, or deletes it if the call fails.
template <class Argument>
Code launch_with(const Runtime& runtime, Stream stream, HostFunction function, std::unique_ptr<Argument> argument) {
  if (runtime.launch_host_function == nullptr) return kUnsupported;
  const Code code = runtime.launch_host_function(stream, function, argument.get());
  if (code == kSuccess) (void)argument.release();
  return code;
}

/// Calls body(address, piece) for each piece of a touch until one fails.
template <class Body>
Code for_each_piece(const Touch& touch, void* buffer, Body&& body) {
  Code code = kSuccess;
  for (Bytes done = 0; done < touch.bytes && code == kSuccess; done += kPieceBytes) {
    const std::uint64_t words = static_cast<std::uint64_t>((touch.place + done) / kWord);
    const Piece piece{buffer, std::min(kPieceBytes, touch.bytes - done), pattern_word(touch.seed, words)};
    code = body(reinterpret_cast<void*>(touch.address + static_cast<Address>(done)), piece);
  }
  return code;
}

}  // namespace

Code Verifier::buffer_of(Stream stream, void*& buffer) {
  const std::lock_guard lock(mutex_);
  void*& kept = buffers_[stream];
  const Code code = kept != nullptr ? kSuccess : runtime_.host_allocate(&kept, static_cast<std::size_t>(kPieceBytes));
  buffer = kept;
  return code;
}

Code Verifier::check(Stream stream, const Touch& touch, std::int64_t work_id) {
  if (runtime_.launch_host_function == nullptr) return kUnsupported;
  void* buffer = nullptr;
  if (const Code code = buffer_of(stream, buffer); code != kSuccess) return code;
  const auto checked =
      std::make_shared<CheckedTouch>(CheckedTouch{findings_, {work_id, touch.address, touch.bytes, touch.seed}});
  return for_each_piece(touch, buffer, [&](void* at, const Piece& piece) {
    const auto bytes = static_cast<std::size_t>(piece.bytes);
    const Code code = runtime_.copy(buffer, bytes, at, bytes, kDeviceToHost, stream);
    if (code != kSuccess) return code;
    return launch_with(runtime_, stream, run_check, std::make_unique<CheckedPiece>(CheckedPiece{piece, checked}));
  });
}

Code Verifier::fill(Stream stream, const Touch& touch) {
  if (runtime_.launch_host_function == nullptr) return kUnsupported;
  void* buffer = nullptr;
  if (const Code code = buffer_of(stream, buffer); code != kSuccess) return code;
  return for_each_piece(touch, buffer, [&](void* at, const Piece& piece) {
    const auto bytes = static_cast<std::size_t>(piece.bytes);
    const Code code = launch_with(runtime_, stream, run_fill, std::make_unique<Piece>(piece));
    return code != kSuccess ? code : runtime_.copy(at, bytes, buffer, bytes, kHostToDevice, stream);
  });
}

Verifier::Buffer Verifier::take(Stream stream) {
  const std::lock_guard lock(mutex_);
  return buffers_.extract(stream);
}

void Verifier::put_back(Buffer buffer) {
  const std::lock_guard lock(mutex_);
  auto answer = buffers_.insert(std::move(buffer));
  if (!answer.inserted) orphans_.insert(std::move(answer.node));  // the stream got another one meanwhile
}

void Verifier::drop(Buffer buffer) {
  if (buffer.empty() || buffer.mapped() == nullptr || runtime_.host_free(buffer.mapped()) == kSuccess) return;
  const std::lock_guard lock(mutex_);
  orphans_.insert(std::move(buffer));
}

void Verifier::drop_all() {
  std::unique_lock lock(mutex_);
  const std::map<Stream, void*> buffers = std::exchange(buffers_, {});
  const std::multimap<Stream, void*> orphans = std::exchange(orphans_, {});
  lock.unlock();
  for (const auto& [stream, buffer] : orphans) {
    if (buffer != nullptr) (void)runtime_.host_free(buffer);
  }
  for (const auto& [stream, buffer] : buffers) {
    if (buffer != nullptr) (void)runtime_.host_free(buffer);
  }
}

std::int64_t Verifier::mismatches(Mismatch& first) const {
  const std::lock_guard lock(findings_->mutex);
  if (findings_->count > 0) first = findings_->first;
  return findings_->count;
}

Code sleep_on(const Runtime& runtime, Stream stream, std::int64_t duration_ns) {
  return launch_with(runtime, stream, run_sleep, std::make_unique<std::int64_t>(duration_ns));
}

}  // namespace tidemark::acl
