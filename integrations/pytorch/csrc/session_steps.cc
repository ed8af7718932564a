#include "integrations/pytorch/csrc/session_steps.h"

#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "integrations/pytorch/csrc/kernel_watch.h"
#include "integrations/pytorch/csrc/phase_bytes.h"

namespace tidemark_torch {

namespace py = pybind11;

namespace {

SetPhase set_phase = nullptr;

class InForward {
 public:
  InForward() : before_(set_phase == nullptr ? 0 : set_phase(static_cast<std::int32_t>(Phase::forward))) {}
  InForward(const InForward&) = delete;
  InForward& operator=(const InForward&) = delete;
  ~InForward() {
    if (set_phase != nullptr) set_phase(before_);
  }

 private:
  std::int32_t before_;
};

/// A reference of the session's.
tidemark_block lend(c10::Storage storage) {
  auto* handle = c10::intrusive_ptr<c10::StorageImpl>(storage.getWeakStorageImpl().lock()).release();
  return {.handle = handle,
          .address = reinterpret_cast<tidemark_address>(handle->data()),
          .bytes = static_cast<std::int64_t>(handle->nbytes())};
}

c10::Storage reclaim(tidemark_block block) {
  return c10::Storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim(static_cast<c10::StorageImpl*>(block.handle)));
}

c10::Storage look_at(tidemark_block block) {
  return c10::Storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(static_cast<c10::StorageImpl*>(block.handle)));
}

const char* device_name(c10::Device device) {
  return device.is_cuda() ? "cuda" : device.is_privateuseone() ? "ascend" : "host";
}

[[noreturn]] void throw_error(tidemark_error* error) {
  std::string text = tidemark_error_message(error);
  tidemark_error_free(error);
  throw Error(text);
}

}  // namespace

void count_phases(SetPhase function) {
  set_phase = function;
}

void check_unchanged(at::IntArrayRef sizes, const VersionSeen& version) {
  if (version.is_current()) return;
  std::ostringstream text;
  text << "a tensor of shape " << sizes
       << " needed for gradient computation has been modified in place: it is at version " << version.now()
       << ", expected version " << version.seen();
  throw std::runtime_error(text.str());
}

SavedHandle::~SavedHandle() {
  if (saved_ == nullptr) return;
  if (steps_->is_lost()) {
    abandon(records_);
  } else {
    steps_->free(saved_);
  }
}

c10::Storage SavedHandle::use(bool again) const {
  if (handed_over_) return handed_over_;
  bool is_handed_over = false;
  c10::Storage storage = steps_->use(saved_, again, is_handed_over);
  if (is_handed_over && !is_planned_) handed_over_ = storage;
  return storage;
}

SessionSteps::SessionSteps(const std::string& plan_file, c10::Device device, const std::vector<int>& part_of_op,
                           std::int64_t host_bytes, std::int64_t copy_bytes_per_s, py::object raw_stream,
                           const std::string& record, tidemark_allocator* allocator,
                           const std::vector<RequestRow>& requests, const std::vector<int>& may_spill,
                           tidemark_submit_queued submit_queued)
    : device_(device), spills_(!may_spill.empty()), raw_stream_(std::move(raw_stream)) {
  tidemark_error* error = nullptr;
  tidemark_plan* plan = nullptr;
  tidemark_device_options device_options{};
  device_options.struct_size = sizeof device_options;
  device_options.d2h_bytes_per_s = device_options.h2d_bytes_per_s = copy_bytes_per_s;
  device_options.copies_any_memory = 1;
  device_options.ordinal = device.has_index() ? device.index() : 0;
  device_options.submit_queued = submit_queued;
  tidemark_device* opened = nullptr;
  if (tidemark_device_open(device_name(device), &device_options, &opened, &error) != TIDEMARK_STATUS_OK)
    throw_error(error);
  opened_.reset(opened);
  tidemark_session_options options{};
  options.struct_size = sizeof options;
  options.user = this;
  options.rebuild = [](void* user, const tidemark_rebuild* asked) {
    return static_cast<SessionSteps*>(user)->rebuild(*asked);
  };
  options.take_block = [](void* user, std::int32_t, std::int64_t bytes, tidemark_stream) {
    return static_cast<SessionSteps*>(user)->take_block(bytes);
  };
  options.release = [](void* user, tidemark_block block, tidemark_stream) {
    static_cast<SessionSteps*>(user)->release(block);
  };
  options.host_bytes = host_bytes;
  options.part_of_op = part_of_op.data();
  options.op_count = static_cast<std::int32_t>(part_of_op.size());
  std::vector<tidemark_request> asked;
  for (const auto& [op, storage, bytes, least, offset, is_remade, is_within] : requests)
    asked.push_back({.op = op,
                     .storage = storage,
                     .bytes = bytes,
                     .least_bytes = least,
                     .offset = offset,
                     .is_remade = is_remade ? 1 : 0,
                     .is_within = is_within ? 1 : 0});
  options.is_idle = [](void* user, void* handle) {
    return static_cast<SessionSteps*>(user)->is_idle(static_cast<c10::StorageImpl*>(handle)) ? 1 : 0;
  };
  options.may_spill = may_spill.empty() ? nullptr : may_spill.data();
  options.may_spill_count = static_cast<std::int64_t>(may_spill.size());
  options.allocator = allocator;
  options.requests = asked.empty() ? nullptr : asked.data();
  options.request_count = static_cast<std::int64_t>(asked.size());
  if (!record.empty()) options.record = record.c_str();
  auto status =
      tidemark_plan_read_text(plan_file.data(), static_cast<std::int64_t>(plan_file.size()), "the plan", &plan, &error);
  if (status == TIDEMARK_STATUS_OK) status = tidemark_session_open(plan, 0, opened_.get(), &options, &session_, &error);
  tidemark_plan_free(plan);
  if (status != TIDEMARK_STATUS_OK) throw_error(error);
}

SessionSteps::~SessionSteps() {
  if (is_lost()) {
    abandon(opened_);
    abandon(records_);
    abandon(in_flight_);
  } else {
    tidemark_session_close(session_);
  }
  if (Py_IsInitialized() == 0) {
    raw_stream_.release();
    return;
  }
  const py::gil_scoped_acquire python;
  raw_stream_ = py::object();
}

tidemark_stream SessionSteps::stream() {
  if (device_.is_cpu()) return TIDEMARK_CALLING_THREAD;
  const c10::Stream now = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  if (stream_ == now) return vendors_stream_;
  has_streams_ |= stream_.has_value();
  stream_ = now;
  const py::gil_scoped_acquire lock;
  vendors_stream_ = raw_stream_(device_.index()).cast<tidemark_stream>();
  return vendors_stream_;
}

void SessionSteps::check(tidemark_status status, tidemark_error*& error) {
  if (auto thrown = std::exchange(thrown_, nullptr)) {
    tidemark_error_free(error);
    std::rethrow_exception(thrown);
  }
  if (status != TIDEMARK_STATUS_OK) throw_error(error);
}

void SessionSteps::begin_step() {
  const SessionLock lock;
  tidemark_error* error = nullptr;
  const auto status = tidemark_session_begin_step(session_, stream(), &error);
  if (status == TIDEMARK_STATUS_OK || status == TIDEMARK_STATUS_BAD_INPUT) {  // begun, though its log is not written
    records_ = std::make_shared<StepRecords>();
    for (auto step = in_flight_.begin(); step != in_flight_.end();)
      step = step->second.expired() ? in_flight_.erase(step) : std::next(step);
    if (in_flight_.empty()) last_change_.clear();
    in_flight_[++step_] = records_;
  }
  check(status, error);
}

void SessionSteps::end_step() {
  const SessionLock lock;
  const auto records = std::exchange(records_, nullptr);  // it ends whatever is answered
  if (records == nullptr) return;
  tidemark_error* error = nullptr;
  check(tidemark_session_end_step(session_, stream(), &error), error);
}

void SessionSteps::close() {
  const SessionLock lock;
  if (session_ == nullptr) return;
  struct Closing {
    SessionSteps& steps;
    ~Closing() {
      steps.last_report_ = steps.report();
      tidemark_session_close(std::exchange(steps.session_, nullptr));
    }
  } closing{*this};
  end_step();
}

void SessionSteps::expect_requests(std::int32_t requests) {
  if (is_lost()) return;
  const SessionLock lock;
  if (session_ == nullptr) return;
  if (std::exchange(expected_, requests) == requests) return;
  tidemark_error* error = nullptr;
  check(tidemark_session_expect_requests(session_, requests, &error), error);
}

void SessionSteps::tell(int op) {
  const SessionLock lock;
  tidemark_error* error = nullptr;
  check(tidemark_session_op(session_, op, stream(), &error), error);
}

bool SessionSteps::is_lendable(const at::Tensor& tensor) const {
  return is_plain(tensor) && tensor.storage().device() == device_;
}

int SessionSteps::storage_of(const at::Tensor& tensor) const {
  if (!is_lendable(tensor)) return kNone;
  const SessionLock lock;
  return tidemark_session_find(session_, tensor.storage().unsafeGetStorageImpl());
}

void SessionSteps::record_call(const PlannedCall& planned, const c10::OperatorHandle& op, const KernelTraits& traits,
                               const torch::jit::Stack& stack) {
  const SessionLock lock;
  if (planned.first) (*records_)[planned.op].clear();
  const auto calls = records_->find(planned.op);
  if (calls == records_->end()) return;
  bool is_as_planned = true;
  const auto source_of = [&](const at::Tensor& tensor) {
    const int storage = storage_of(tensor);
    if (!is_managed(storage)) return kNone;  // what is adopted is not recomputed from
    is_as_planned = is_as_planned && std::ranges::find(planned.reads, storage) != planned.reads.end();
    return storage;
  };
  calls->second.push_back(record(op, traits, stack, planned.outputs, {.storage_of = source_of, .changes = changes_}));
  if (!is_as_planned) keep(planned.op);  // a layer before it was left out, say
}

void SessionSteps::keep(int op) {
  tidemark_error* error = nullptr;
  records_->erase(op);
  check(tidemark_session_keep(session_, op, &error), error);
}

void SessionSteps::take_output(const PlannedCall& planned, int storage, const at::Tensor& tensor) {
  const SessionLock lock;
  tidemark_error* error = nullptr;
  if (!is_lendable(tensor)) return keep(planned.op);  // its holder keeps it, and so all that the operation made is kept
  if (tidemark_session_find(session_, tensor.storage().unsafeGetStorageImpl()) == storage) return;
  const tidemark_block block = lend(tensor.storage());
  const auto status = tidemark_session_take(session_, storage, block, stream(), &error);
  if (status != TIDEMARK_STATUS_OK) static_cast<void>(reclaim(block));
  check(status, error);
}

SavedHandle SessionSteps::save(const PlannedSave& planned) {
  const SessionLock lock;
  tidemark_error* error = nullptr;
  tidemark_saved* saved = nullptr;
  check(tidemark_session_save(session_, planned.storage, planned.use, planned.until, &saved, &error), error);
  const bool is_adopted = planned.storage != kNone && !is_managed(planned.storage);
  return SavedHandle(shared_from_this(), is_adopted ? nullptr : records_, saved, planned.use != kNone);
}

SavedHandle SessionSteps::save_unplanned(const at::Tensor& tensor) {
  if (!is_lendable(tensor)) return {};
  const SessionLock lock;  // what is found is there until it is saved
  if (session_ == nullptr) return {};
  int storage = storage_of(tensor);
  if (storage == kNone && spills_ && is_worth_adopting(tensor.storage())) storage = adopt(tensor.storage());
  if (storage == kNone) return {};
  return save({storage, kNone, kNone});
}

bool SessionSteps::is_worth_adopting(const c10::Storage& storage) const {
  constexpr std::size_t kSmall = 512;  // of which many share a page of the allocator
  if (storage.nbytes() <= kSmall || storage.data() == nullptr) return false;
  if (storage.allocator() == nullptr) return false;  // NumPy's, or another library's
  return !device_.is_cpu() || storage.allocator() == c10::GetAllocator(c10::DeviceType::CPU);
}

int SessionSteps::adopt(const c10::Storage& storage) {
  tidemark_error* error = nullptr;
  std::int32_t adopted = kNone;
  const tidemark_block block = lend(storage);
  const auto status = tidemark_session_adopt(session_, block, stream(), &adopted, &error);
  if (status != TIDEMARK_STATUS_OK) static_cast<void>(reclaim(block));
  check(status, error);
  Adopted& known = adopted_[block.handle];
  known.block = block;
  ++known.times;
  return adopted;
}

void SessionSteps::forget_adopted(const void* handle) {
  const auto found = adopted_.find(handle);
  if (found != adopted_.end() && --found->second.times == 0) adopted_.erase(found);
}

/// Nor may its bytes have moved, as by a resize of a storage that the plan does not know.
bool SessionSteps::is_idle(c10::StorageImpl* storage) const {
  if (c10::raw::intrusive_ptr::use_count(storage) != 1) return false;
  const auto found = adopted_.find(storage);
  if (found == adopted_.end()) return true;
  const tidemark_block& block = found->second.block;
  return block.address == reinterpret_cast<tidemark_address>(storage->data()) &&
         block.bytes == static_cast<std::int64_t>(storage->nbytes());
}

c10::Storage SessionSteps::use(tidemark_saved* saved, bool again, bool& is_handed_over) {
  if (is_lost())
    throw Error("what was saved for backward cannot be had: another thread was at it when this process was forked");
  const SessionLock lock;
  tidemark_error* error = nullptr;
  tidemark_block block{};
  std::int32_t handed_over = 0;
  check(tidemark_session_use(saved, again ? 1 : 0, stream(), &block, &handed_over, &error), error);
  if (block.handle == nullptr) return {};
  is_handed_over = handed_over != 0;
  if (!is_handed_over) return look_at(block);
  forget_adopted(block.handle);
  c10::Storage storage = reclaim(block);
  note_stream(storage);
  return storage;
}

void SessionSteps::free(tidemark_saved* saved) {
  const SessionLock lock;
  const std::exception_ptr before = thrown_;
  tidemark_session_free(saved);
  thrown_ = before;  // who frees is told of nothing
}

void SessionSteps::change(const at::Tensor& tensor, bool planned) {
  if (!is_lendable(tensor)) return;
  const SessionLock lock;
  if (session_ == nullptr) return;
  tidemark_error* error = nullptr;
  auto* const storage = tensor.storage().unsafeGetStorageImpl();
  last_change_[storage] = ++changes_;
  check(tidemark_session_change(session_, storage, planned ? 1 : 0, stream(), &error), error);
}

/// A thread of the pool that works for a call of a session must not wait for that call.
bool SessionSteps::make_room(std::int64_t bytes) {
  const SessionLock lock(std::try_to_lock);
  if (!lock.has_lock() || is_lost() || session_ == nullptr) return false;
  const Unseen unseen;
  const std::exception_ptr before = thrown_;
  tidemark_error* error = nullptr;
  std::int64_t given_up = 0;
  if (tidemark_session_make_room(session_, bytes, stream(), &given_up, &error) != TIDEMARK_STATUS_OK)
    tidemark_error_free(error);
  thrown_ = before;  // what comes of this call its answer says
  return given_up > 0;
}

namespace {

std::weak_ptr<SessionSteps>& serving() {  // under pointer_mutex()
  static auto* steps = new std::weak_ptr<SessionSteps>;
  return *steps;
}

}  // namespace

void serve_room(const std::shared_ptr<SessionSteps>& steps) {
  const std::lock_guard lock(pointer_mutex());
  serving() = steps;
}

std::int32_t make_room_of_session(std::int64_t bytes, std::int32_t device) {
  std::shared_ptr<SessionSteps> steps;
  {
    const std::lock_guard lock(pointer_mutex());
    steps = serving().lock();
  }
  return steps != nullptr && steps->ordinal() == device && steps->make_room(bytes) ? 1 : 0;
}

tidemark_session_report SessionSteps::report() const {
  tidemark_session_report report{};
  report.struct_size = sizeof report;
  if (is_lost()) return report;
  const SessionLock lock;
  if (session_ == nullptr) return last_report_;
  static_cast<void>(tidemark_session_get_report(session_, &report, nullptr));
  return report;
}

/// What is rebuilt from must be as it was. The session hears of changes in forward; others may have been made since.
/// Those of `tensor.data` do not count for autograd.
void SessionSteps::check_sources(const std::vector<RecordedCall>& calls, const tidemark_rebuild& asked) const {
  for (const auto& call : calls)
    call.for_each_source([&](const Source& source) {
      if (source.storage == kNone) {
        const auto last = last_change_.find(source.original);
        if (last != last_change_.end() && last->second > source.changes) throw_changed(source.held.sizes());
        return;
      }
      for (std::int32_t i = 0; i < asked.source_count; ++i)
        if (asked.sources[i].storage == source.storage && source.original == asked.sources[i].block.handle)
          check_source(source, source.geometry.sizes);
    });
}

tidemark_status SessionSteps::rebuild(const tidemark_rebuild& asked) {
  try {
    const auto step = in_flight_.find(asked.step);
    const auto records = step == in_flight_.end() ? nullptr : step->second.lock();
    const auto calls = records == nullptr ? StepRecords::const_iterator{} : records->find(asked.op);
    if (records == nullptr || calls == records->end()) throw Error("an operation is recomputed that was not recorded");
    check_sources(calls->second, asked);
    std::optional<py::gil_scoped_release> others_may_run;
    if (PyGILState_Check() != 0) others_may_run.emplace();
    const InForward phase;
    recompute(
        calls->second,
        [&](int storage) {
          for (std::int32_t i = 0; i < asked.source_count; ++i)
            if (asked.sources[i].storage == storage) return look_at(asked.sources[i].block);
          throw Error("an operation is recomputed without what it reads");
        },
        [&](int storage, const at::Tensor& tensor) {
          for (std::int32_t i = 0; i < asked.wanted_count; ++i)
            if (asked.wanted[i] == storage && asked.made[i].handle == nullptr) asked.made[i] = lend(tensor.storage());
        });
    if (asked.is_last != 0) records->erase(calls);  // and the tensors that it holds
    return TIDEMARK_STATUS_OK;
  } catch (...) {
    thrown_ = std::current_exception();
    return TIDEMARK_STATUS_INTERNAL;
  }
}

tidemark_block SessionSteps::take_block(std::int64_t bytes) {
  try {
    const Unseen unseen;
    const InForward phase;
    return lend(at::empty({bytes}, at::TensorOptions(device_).dtype(at::kByte)).storage());
  } catch (...) {
    thrown_ = std::current_exception();
    return {};
  }
}

void SessionSteps::release(tidemark_block block) {
  forget_adopted(block.handle);
  const c10::Storage storage = reclaim(block);
  try {
    note_stream(storage);
  } catch (...) {
    thrown_ = std::current_exception();
  }
}

/// Its allocator knows of the stream that it was made on alone. Of the others the last one stands for all: the session
/// has each wait for those before (swap/framework_streams.h).
void SessionSteps::note_stream(const c10::Storage& storage) const {
  if (!has_streams_ || storage.device() != device_) return;
  const Unseen unseen;
  at::empty({0}, at::TensorOptions(device_).dtype(at::kByte)).set_(storage).record_stream(*stream_);
}

}  // namespace tidemark_torch
