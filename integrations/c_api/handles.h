#pragma once
// What the incomplete types of the C interface are.

#include <functional>
#include <memory>
#include <string>

#include "allocator/caching_allocator.h"
#include "device/device.h"
#include "include/tidemark/tidemark.h"
#include "integrations/agreement/expert_group.h"
#include "integrations/c_api/allocator_group.h"
#include "integrations/formats/program_file.h"

struct tidemark_error {
  tidemark_status status = TIDEMARK_STATUS_OK;
  std::string message;
};

struct tidemark_buffer {
  std::string bytes;
};

struct tidemark_device {
  std::shared_ptr<tidemark::Device> device;
};

struct tidemark_allocator {
  std::function<std::string(std::uint32_t)> owner_name;
  bool of_process = false;  ///< behind the framework hooks: never freed
  tidemark::c_api::AllocatorGroup group;

  tidemark_allocator(std::shared_ptr<tidemark::Device> on, tidemark::allocator::AllocatorOptions options,
                     tidemark::c_api::AllocatorGroup::Refused refused = {})
      : owner_name(options.owner_name), group(std::move(on), std::move(options), std::move(refused)) {}
};

struct tidemark_expert_group {
  std::unique_ptr<tidemark::agreement::ExpertGroup> group;
};

struct tidemark_plan {
  tidemark::formats::PlanFile file;
  std::string name;
};

namespace tidemark::c_api {

[[nodiscard]] tidemark_allocator_statistics to_c(const allocator::AllocatorStatistics& statistics);

}  // namespace tidemark::c_api
