#include "integrations/pytorch/csrc/request_recorder.h"

#include "integrations/pytorch/csrc/recorded_call.h"
#include "integrations/pytorch/csrc/torch_hooks.h"

namespace tidemark_torch {
namespace {

/// Of what one kernel asks for.
class Log {
 public:
  explicit Log(tidemark_allocator* allocator) : allocator_(allocator) {
    tidemark_error* error = nullptr;
    throw_unless_ok(tidemark_allocator_begin_log(allocator_, &error), error);
  }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  ~Log() { tidemark_buffer_free(end()); }

  [[nodiscard]] std::vector<std::pair<std::int64_t, std::int64_t>> take() {
    tidemark_buffer* const buffer = end();
    const auto* events = static_cast<const tidemark_allocator_event*>(tidemark_buffer_data(buffer));
    const auto count = static_cast<std::size_t>(tidemark_buffer_size(buffer)) / sizeof(tidemark_allocator_event);
    std::vector<std::pair<std::int64_t, std::int64_t>> rows;
    for (std::size_t i = 0; i < count; ++i)
      rows.emplace_back(static_cast<std::int64_t>(events[i].address), events[i].bytes);
    tidemark_buffer_free(buffer);
    return rows;
  }

 private:
  tidemark_buffer* end() {
    tidemark_buffer* events = nullptr;
    (void)tidemark_allocator_end_log(allocator_, &events, nullptr);
    return events;
  }

  tidemark_allocator* const allocator_;
};

}  // namespace

void RequestRecorder::call(const c10::OperatorHandle& op, const std::string* name, torch::jit::Stack& stack) {
  const std::lock_guard lock(mutex_);
  Log log(allocator_);
  op.callBoxed(stack);
  SeenKernel seen{.name = name, .outputs = {}, .events = log.take()};
  for_each_tensor(stack, op.schema().returns().size(), [&](const at::Tensor& tensor) {
    const void* at = tensor.has_storage() ? tensor.storage().data() : nullptr;
    seen.outputs.push_back(reinterpret_cast<std::int64_t>(at));
  });
  seen_.push_back(std::move(seen));
}

std::vector<SeenKernel> RequestRecorder::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(seen_, {});
}

}  // namespace tidemark_torch
