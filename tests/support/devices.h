#pragma once
// Chips of the devices that are shipped.

#include "integrations/formats/chip_files.h"
#include "tests/support/data.h"

namespace tidemark::testing {

[[nodiscard]] inline formats::ReadChip shipped_chips() {
  return formats::chips_in(source_path("devices/chips"));
}

}  // namespace tidemark::testing
