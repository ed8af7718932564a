#include "integrations/pytorch/csrc/request_recorder.h"

#include "integrations/pytorch/csrc/recorded_call.h"
#include "integrations/pytorch/csrc/torch_hooks.h"

namespace tidemark_torch {

RequestRecorder::RequestRecorder(tidemark_allocator* allocator) : allocator_(allocator) {
  tidemark_error* error = nullptr;
  throw_unless_ok(tidemark_allocator_begin_log(allocator_, &error), error);
}

RequestRecorder::~RequestRecorder() {
  take();
}

AllocatorEvents RequestRecorder::end_log() {
  tidemark_buffer* buffer = nullptr;
  (void)tidemark_allocator_end_log(allocator_, &buffer, nullptr);
  const auto* events = static_cast<const tidemark_allocator_event*>(tidemark_buffer_data(buffer));
  const auto count = static_cast<std::size_t>(tidemark_buffer_size(buffer)) / sizeof(tidemark_allocator_event);
  AllocatorEvents rows;
  for (std::size_t i = 0; i < count; ++i)
    rows.emplace_back(static_cast<std::int64_t>(events[i].address), events[i].bytes);
  tidemark_buffer_free(buffer);
  return rows;
}

AllocatorEvents RequestRecorder::next_events() {
  auto events = end_log();
  (void)tidemark_allocator_begin_log(allocator_, nullptr);
  return events;
}

bool RequestRecorder::begin(SeenKernel& kernel) {
  const std::lock_guard lock(mutex_);
  is_mixed_ |= is_running_;
  if (is_over_ || is_mixed_) return false;
  is_running_ = true;
  kernel.before = next_events();
  return true;
}

void RequestRecorder::end(SeenKernel kernel) {
  const std::lock_guard lock(mutex_);
  is_running_ = false;
  if (is_over_) return;  // the log is another record's by now
  kernel.events = next_events();
  seen_.push_back(std::move(kernel));
}

void RequestRecorder::call(const c10::OperatorHandle& op, const std::string* name, torch::jit::Stack& stack) {
  SeenKernel seen{.name = name, .outputs = {}, .before = {}, .events = {}};
  if (getpid() != process_ || !begin(seen)) return op.callBoxed(stack);
  op.callBoxed(stack);
  for_each_tensor(stack, op.schema().returns().size(), [&](const at::Tensor& tensor) {
    const void* at = tensor.has_storage() ? tensor.storage().data() : nullptr;
    seen.outputs.push_back(reinterpret_cast<std::int64_t>(at));
  });
  end(std::move(seen));
}

std::vector<SeenKernel> RequestRecorder::take() {
  if (getpid() != process_) {
    end_log();
    return {};
  }
  const std::lock_guard lock(mutex_);
  if (!std::exchange(is_over_, true)) end_log();
  return is_running_ || is_mixed_ ? std::vector<SeenKernel>{} : std::exchange(seen_, {});
}

}  // namespace tidemark_torch
