#include "device/device.h"

namespace tidemark {

const char* name_of(DeviceCode code) {
  switch (code) {
    case DeviceCode::ok:
      return "ok";
    case DeviceCode::not_ready:
      return "not ready";
    case DeviceCode::out_of_memory:
      return "out of memory";
    case DeviceCode::no_resource:
      return "no event, stream or task slot left";
    case DeviceCode::unsupported:
      return "unsupported";
    case DeviceCode::invalid:
      return "invalid argument";
    case DeviceCode::copy_failed:
      return "copy or launch failed";
    case DeviceCode::lost:
      return "device lost";
  }
  return "unknown";
}

}  // namespace tidemark
