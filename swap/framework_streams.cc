#include "swap/framework_streams.h"

namespace tidemark::swap {

DeviceCode FrameworkStreams::enter(FrameworkStream stream) {
  if (!stream || stream == last_) return DeviceCode::ok;
  if (last_)
    if (const DeviceCode code = order(*last_, *stream); code != DeviceCode::ok) return code;
  last_ = stream;
  return DeviceCode::ok;
}

DeviceCode FrameworkStreams::order(StreamHandle earlier, StreamHandle later) {
  EventHandle event{};
  DeviceCode code = events_.acquire(event);
  if (code == DeviceCode::ok) {
    code = device_.record_event(event, earlier);
    if (code == DeviceCode::ok) code = device_.wait_event(later, event);
    events_.release(event);
  }
  return is_recoverable(code) ? device_.synchronize_stream(earlier) : code;
}

}  // namespace tidemark::swap
