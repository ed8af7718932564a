#pragma once
// Messages between ranks: per sender, receiver and tag, the n-th receive gets the n-th send that has ended. A receive
// may come first; then its stream waits here. Threads: the caller serialises.

#include <cstddef>
#include <cstdint>
#include <set>
#include <unordered_map>
#include <vector>

namespace tidemark {

class SimChannels {
 public:
  struct Key {
    std::int32_t from = 0, to = 0;  ///< ranks
    std::int64_t tag = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  enum class Message : std::uint8_t { not_sent, arrived, failed };

  /// The next receive looks for its message. not_sent: `stream` waits until send() names it.
  [[nodiscard]] Message receive(const Key& key, std::uint32_t stream);
  /// The next send has ended. Gives the stream that waits for it, kNoSlot (device/sim_ring.h) if none does.
  [[nodiscard]] std::uint32_t send(const Key& key, bool failed);
  /// The receive of a stream that waits never was.
  void withdraw(const Key& key, std::uint32_t stream);

 private:
  struct Channel {
    std::int64_t sent = 0, received = 0;  ///< sends that have ended; receives that have begun to wait
    std::vector<std::uint32_t> waiting;   ///< streams, in order of their receives
    std::set<std::int64_t> failed;        ///< numbers of sends that failed and were not received yet
  };
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };
  std::unordered_map<Key, Channel, Hash> channels_;
};

}  // namespace tidemark
