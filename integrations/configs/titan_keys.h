#pragma once
// What the keys of a torchtitan configuration mean for memory.

#include "integrations/configs/key_judge.h"

namespace tidemark::configs {

/// Names and defaults: torchtitan/config/job_config.py (2025), which train_configs/*.toml fill in.
[[nodiscard]] const KeyTable& titan_table();

}  // namespace tidemark::configs
