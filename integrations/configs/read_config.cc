#include "integrations/configs/read_config.h"

#include <fmt/format.h>

#include "integrations/configs/bridge.h"
#include "integrations/configs/mindformers.h"
#include "integrations/configs/titan.h"

namespace tidemark::configs {

Result<estimate::ImportedRun> read_config(std::string_view text, std::string_view file_name, ConfigKind kind,
                                          const estimate::RunHints& hints) {
  switch (kind) {
    case ConfigKind::bridge:
      return read_bridge(text, file_name, hints);
    case ConfigKind::torchtitan:
      return read_titan(text, file_name, hints);
    case ConfigKind::mindformers:
      return read_mindformers(text, file_name, hints);
    case ConfigKind::other:
      break;
  }
  return bad_input(
      fmt::format("{}:1: this is no configuration of Megatron-Bridge, torchtitan or MindFormers; a dump of "
                  "Megatron-Bridge has the sections model, train and ddp, a file of torchtitan ends in "
                  ".toml, one of MindFormers has runner_config and parallel_config",
                  file_name));
}

Result<estimate::ImportedRun> read_config(std::string_view text, std::string_view file_name,
                                          const estimate::RunHints& hints) {
  return read_config(text, file_name, kind_of(text, file_name), hints);
}

}  // namespace tidemark::configs
