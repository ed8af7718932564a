#pragma once
// What the keys of a Megatron-Bridge configuration dump mean for memory.

#include "integrations/configs/key_judge.h"

namespace tidemark::configs {

/// Names and defaults: megatron/bridge/training/config.py, mixed_precision.py and comm_overlap.py, and the dumps in
/// scripts/performance/dryrun_configs of NVIDIA-NeMo/Megatron-Bridge (2026). A key of `model`, `optimizer` or `ddp`
/// without a row is Megatron-LM's argument of that name, if there is one.
[[nodiscard]] const KeyTable& bridge_table();

}  // namespace tidemark::configs
