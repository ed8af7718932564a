#pragma once
// A small number for every thread that runs: the least that no other running thread has. A thread that ends leaves its
// number to the next new one, and with it the shard whose memory the old one freed.

#include <cstddef>

namespace tidemark::allocator {

/// Of the calling thread, from 0; the same until it ends. More than 4096 threads at once share the last. Any thread.
[[nodiscard]] std::size_t thread_number();

}  // namespace tidemark::allocator
