#pragma once
// What the keys of a MindFormers configuration mean for memory.

#include "integrations/configs/key_judge.h"

namespace tidemark::configs {

/// Names: configs/general/*_template.yaml, research/deepseek3 and docs "Configuration File Descriptions" of MindFormers
/// 1.3 to 1.7 (static graphs).
[[nodiscard]] const KeyTable& mindformers_table();

}  // namespace tidemark::configs
