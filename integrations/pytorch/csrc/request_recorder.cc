#include "integrations/pytorch/csrc/request_recorder.h"

#include "integrations/pytorch/csrc/recorded_call.h"
#include "integrations/pytorch/csrc/torch_hooks.h"

namespace tidemark_torch {

RequestRecorder::RequestRecorder(tidemark_allocator* allocator) : allocator_(allocator) {
  tidemark_error* error = nullptr;
  throw_unless_ok(tidemark_allocator_begin_log(allocator_, &error), error);
}

RequestRecorder::~RequestRecorder() {
  tidemark_buffer* events = nullptr;
  (void)tidemark_allocator_end_log(allocator_, &events, nullptr);
  tidemark_buffer_free(events);
}

AllocatorEvents RequestRecorder::next_events() {
  tidemark_buffer* buffer = nullptr;
  (void)tidemark_allocator_end_log(allocator_, &buffer, nullptr);
  (void)tidemark_allocator_begin_log(allocator_, nullptr);
  const auto* events = static_cast<const tidemark_allocator_event*>(tidemark_buffer_data(buffer));
  const auto count = static_cast<std::size_t>(tidemark_buffer_size(buffer)) / sizeof(tidemark_allocator_event);
  AllocatorEvents rows;
  for (std::size_t i = 0; i < count; ++i)
    rows.emplace_back(static_cast<std::int64_t>(events[i].address), events[i].bytes);
  tidemark_buffer_free(buffer);
  return rows;
}

void RequestRecorder::call(const c10::OperatorHandle& op, const std::string* name, torch::jit::Stack& stack) {
  if (getpid() != process_) return op.callBoxed(stack);
  const std::lock_guard lock(mutex_);
  SeenKernel seen{.name = name, .outputs = {}, .before = next_events(), .events = {}};
  op.callBoxed(stack);
  seen.events = next_events();
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
