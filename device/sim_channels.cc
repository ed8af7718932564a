#include "device/sim_channels.h"

#include "device/sim_ring.h"

namespace tidemark {

std::size_t SimChannels::Hash::operator()(const Key& key) const {
  const auto ranks =
      static_cast<std::uint64_t>(static_cast<std::uint32_t>(key.from)) << 32 | static_cast<std::uint32_t>(key.to);
  std::uint64_t x = ranks * 0x9E3779B97F4A7C15ULL ^ static_cast<std::uint64_t>(key.tag);
  x = (x ^ x >> 32) * 0xD6E8FEB86659FD93ULL;
  return static_cast<std::size_t>(x ^ x >> 32);
}

SimChannels::Message SimChannels::receive(const Key& key, std::uint32_t stream) {
  Channel& channel = channels_[key];
  const std::int64_t number = channel.received++;
  if (number < channel.sent) return channel.failed.erase(number) > 0 ? Message::failed : Message::arrived;
  channel.waiting.push_back(stream);
  return Message::not_sent;
}

std::uint32_t SimChannels::send(const Key& key, bool failed) {
  Channel& channel = channels_[key];
  const std::int64_t number = channel.sent++;
  if (channel.waiting.empty()) {
    if (failed) channel.failed.insert(number);
    return kNoSlot;
  }
  const std::uint32_t receiver = channel.waiting.front();
  channel.waiting.erase(channel.waiting.begin());
  return receiver;
}

void SimChannels::withdraw(const Key& key, std::uint32_t stream) {
  Channel& channel = channels_[key];
  std::erase(channel.waiting, stream);
  --channel.received;
}

}  // namespace tidemark
