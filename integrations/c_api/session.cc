// Sessions of the C interface: a plan followed beside a framework.

#include "swap/session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "integrations/c_api/handles.h"
#include "integrations/c_api/served_requests.h"
#include "integrations/c_api/sound_rank.h"
#include "integrations/c_api/structs.h"
#include "integrations/formats/file.h"
#include "integrations/formats/session_log.h"
#include "swap/planned_requests.h"

using namespace tidemark;         // NOLINT: the functions below have the C interface's names
using namespace tidemark::c_api;  // NOLINT

namespace {

/// A session's log. Its file is made once all else is open, so that what is refused leaves an older one as it was.
class SessionLog {
 public:
  /// The head, then events as they come. Without it nothing is logged.
  Status create(const char* path, Bytes host_bytes, const swap::FollowedLoop& loop) {
    Result<std::unique_ptr<formats::GrowingFile>> created = formats::GrowingFile::create(path);
    if (!created) return created.error();
    file_ = std::move(created).value();
    file_->append(formats::write_session_log_head(host_bytes, loop));
    return {};
  }
  void append(const swap::SessionEvent& event) const {
    if (file_ != nullptr && getpid() == process_)  // a forked child has the same file
      file_->append(formats::write_session_event(event));
  }
  /// That it could not be written, once.
  [[nodiscard]] Status news() {
    if (file_ == nullptr || was_told_) return {};
    Status status = file_->status();
    was_told_ = !status.ok();
    return status;
  }

 private:
  std::unique_ptr<formats::GrowingFile> file_;
  bool was_told_ = false;
  const pid_t process_ = getpid();
};

}  // namespace

struct tidemark_session {
  std::shared_ptr<Device> device;  ///< outlives the session
  std::shared_ptr<SessionLog> log;
  std::unique_ptr<swap::Session> session;
  std::shared_ptr<ServedRequests> requests;
};

struct tidemark_saved {
  std::shared_ptr<Device> device;
  swap::SavedStorage saved;
};

namespace {

swap::FrameworkStream stream_of(tidemark_stream stream) {
  if (stream == TIDEMARK_CALLING_THREAD) return {};
  return static_cast<StreamHandle>(stream);
}

tidemark_stream to_c(swap::FrameworkStream stream) {
  return stream ? static_cast<tidemark_stream>(*stream) : TIDEMARK_CALLING_THREAD;
}

tidemark_block to_c(swap::FrameworkBlock block) {
  return {.handle = block.handle, .address = block.address, .bytes = block.bytes};
}

swap::FrameworkBlock block_of(tidemark_block block) {
  return {.handle = block.handle, .address = block.address, .bytes = block.bytes};
}

bool is_sound(const tidemark_block& block) {
  return block.bytes >= 0 && block.bytes <= kMostBytes && (block.bytes == 0 || block.address != 0);
}

/// Calls the framework's function in its own types.
Status rebuild(const tidemark_session_options& o, const swap::Rebuild& again) {
  std::vector<tidemark_source> sources;
  for (const swap::Rebuild::Source& source : again.sources)
    sources.push_back(
        {.storage = static_cast<std::int32_t>(source.storage), .reserved = 0, .block = to_c(source.block)});
  std::vector<std::int32_t> wanted;
  for (const StorageId storage : again.wanted) wanted.push_back(static_cast<std::int32_t>(storage));
  std::vector<tidemark_block> made(wanted.size());
  const tidemark_rebuild asked{.struct_size = sizeof(tidemark_rebuild),
                               .op = static_cast<std::int32_t>(again.op),
                               .source_count = static_cast<std::int32_t>(sources.size()),
                               .sources = sources.data(),
                               .wanted = wanted.data(),
                               .made = made.data(),
                               .wanted_count = static_cast<std::int32_t>(wanted.size()),
                               .is_last = again.is_last ? 1 : 0,
                               .stream = to_c(again.stream),
                               .step = again.step};
  const tidemark_status status = o.rebuild(o.user, &asked);
  for (std::size_t i = 0; i < made.size(); ++i) again.made[i] = block_of(made[i]);
  if (status == TIDEMARK_STATUS_OK) {
    const auto wrong = std::ranges::find_if_not(made, is_sound);
    if (wrong == made.end()) return {};
    return internal_fault("op " + std::to_string(asked.op) + " was recomputed and made a block of " +
                          std::to_string(wrong->bytes) + " bytes at " + std::to_string(wrong->address));
  }
  return internal_fault("op " + std::to_string(asked.op) + " was not recomputed: the framework answered " +
                        tidemark_status_name(status));
}

swap::FrameworkCalls calls_of(const tidemark_session_options& o) {
  return {.rebuild = [o](const swap::Rebuild& again) { return rebuild(o, again); },
          .take_block =
              [o](StorageId storage, Bytes bytes, swap::FrameworkStream stream) {
                return block_of(o.take_block(o.user, static_cast<std::int32_t>(storage), bytes, to_c(stream)));
              },
          .release = [o](swap::FrameworkBlock block,
                         swap::FrameworkStream stream) { o.release(o.user, to_c(block), to_c(stream)); },
          .is_idle = o.is_idle == nullptr ? std::function<bool(void*)>{}
                                          : [o](void* handle) { return o.is_idle(o.user, handle) != 0; }};
}

Outcome check_options(const tidemark_session_options& o) {
  if (o.rebuild == nullptr || o.take_block == nullptr || o.release == nullptr)
    return invalid("tidemark_session_options: rebuild, take_block and release must be given");
  if (o.part_of_op != nullptr ? o.op_count <= 0 : o.op_count != 0)
    return invalid("tidemark_session_options: op_count is " + std::to_string(o.op_count) +
                   "; it is the length of part_of_op, and 0 without it");
  if ((o.may_spill == nullptr) != (o.may_spill_count == 0) || o.may_spill_count < 0)
    return invalid("tidemark_session_options: may_spill_count is " + std::to_string(o.may_spill_count) +
                   "; it is the length of may_spill, and 0 without it");
  return check_numbers("tidemark_session_options",
                       {{.name = "host_bytes", .value = o.host_bytes, .least = 1, .most = kMostBytes}});
}

swap::FollowedLoop loop_of(const Graph& graph, const tidemark_session_options& o) {
  swap::FollowedLoop loop;
  if (o.part_of_op != nullptr) loop.part_of_op.assign(o.part_of_op, o.part_of_op + o.op_count);
  for (std::size_t op = 0; op < graph.ops.size(); ++op) loop.is_told.push_back(graph.template_of(id_of<OpId>(op)).told);
  for (std::int64_t i = 0; i < o.may_spill_count; ++i)
    if (o.may_spill[i] >= 0) loop.may_spill.push_back(static_cast<StorageId>(o.may_spill[i]));
  return loop;
}

Outcome outcome_of_status(const Status& status) {
  return status ? Outcome{} : outcome_of(status.error());
}

Outcome log_news(const tidemark_session& session) {
  return outcome_of_status(session.log->news());
}

/// Runs `body(swap::Session&)` on a session whose step has begun.
template <class Body>
tidemark_status in_step(tidemark_session* session, tidemark_error** error, Body body) noexcept {
  return guarded(error, [&]() -> Outcome {
    if (session == nullptr) return invalid("session is NULL");
    if (!session->session->is_in_step()) return invalid("no step has begun");
    return body(*session->session);
  });
}

Outcome check_op(const swap::Session& session, std::int32_t op) {
  if (op >= 0 && static_cast<std::size_t>(op) < session.op_count()) return {};
  return invalid("op is " + std::to_string(op) + "; the plan has " + std::to_string(session.op_count()));
}

Outcome check_storage(const swap::Session& session, std::int32_t storage) {
  if (storage >= 0 && session.is_managed(static_cast<StorageId>(storage))) return {};
  return invalid("storage is " + std::to_string(storage) + ", which the session does not manage");
}

Outcome check_saved(const swap::Session& session, std::int32_t storage) {
  if (storage == -1 || (storage >= 0 && session.can_be_saved(static_cast<StorageId>(storage)))) return {};
  return invalid("storage is " + std::to_string(storage) + ", which the session does not manage and has not adopted");
}

Outcome check_block(const tidemark_block& block) {
  if (block.handle == nullptr) return invalid("block has no handle");
  if (is_sound(block)) return {};
  return invalid("block has " + std::to_string(block.bytes) + " bytes at address " + std::to_string(block.address));
}

Outcome check_requests(const tidemark_session_options& o) {
  if ((o.requests == nullptr) != (o.request_count == 0) || o.request_count < 0)
    return invalid("tidemark_session_options: request_count is " + std::to_string(o.request_count) +
                   "; it is the length of requests, and 0 without them");
  for (std::int64_t i = 0; i < o.request_count; ++i) {
    const tidemark_request& r = o.requests[i];
    const std::string which = "request " + std::to_string(i);
    if (r.op < 0 || (i > 0 && r.op < o.requests[i - 1].op))
      return invalid(which + ": op is " + std::to_string(r.op) + "; requests stand by ascending op, from 0");
    if (r.storage < -1) return invalid(which + ": storage is " + std::to_string(r.storage));
    if (r.is_within != 0 && r.storage < 0)
      return invalid(which + ": storage is -1; a workspace within a storage names it");
    if ((r.storage == -1 || r.is_within != 0) &&
        (r.bytes <= 0 || r.bytes > kMostBytes || r.offset < 0 || r.offset > kMostBytes))
      return invalid(which + ": a workspace has from 1 to 2^60 bytes, at an offset from 0");
    if (r.least_bytes < 0 || r.least_bytes > kMostBytes) return invalid(which + ": least_bytes is out of range");
  }
  return {};
}

Result<std::vector<allocator::PlannedBlock>> planned_blocks(const Program& program, const swap::FollowedLoop& loop,
                                                            const tidemark_session_options& o) {
  std::vector<swap::OpRequest> requests;
  for (std::int64_t i = 0; i < o.request_count; ++i) {
    const tidemark_request& r = o.requests[i];
    requests.push_back({.op = static_cast<OpId>(r.op),
                        .storage = r.storage < 0 ? kNone<StorageId> : static_cast<StorageId>(r.storage),
                        .bytes = r.bytes,
                        .least_bytes = r.least_bytes,
                        .offset = r.offset,
                        .is_remade = r.is_remade != 0,
                        .is_within = r.is_within != 0});
  }
  Result<std::vector<allocator::PlannedBlock>> blocks =
      swap::plan_requests(program, loop, requests, o.allocator->group.device().traits().tail_pad_bytes);
  if (!blocks) return blocks;
  const Bytes unit = o.allocator->group.main().rounded_bytes(1);
  for (const allocator::PlannedBlock& block : blocks.value())
    if (!block.unordered && block.offset % unit != 0)
      return bad_input(
          fmt::format("a request of {} B is planned at offset {}, and the allocator's blocks lie at "
                      "multiples of {} B; plan with its unit, or open it with the plan's",
                      block.bytes, block.offset, unit));
  return blocks;
}

std::int64_t shortfalls_of(const std::vector<allocator::PinnedReport>& reports) {
  std::int64_t flags = 0;
  for (const allocator::PinnedReport& report : reports) {
    switch (report.kind) {
      case allocator::PinnedReport::Kind::refused:
        flags |= TIDEMARK_PINNED_REFUSED;
        break;
      case allocator::PinnedReport::Kind::pageable:
        flags |= TIDEMARK_PINNED_PAGEABLE;
        break;
      case allocator::PinnedReport::Kind::numa_unbound:
        flags |= TIDEMARK_PINNED_NUMA_UNBOUND;
        break;
      case allocator::PinnedReport::Kind::no_huge_pages:
        flags |= TIDEMARK_PINNED_SMALL_PAGES;
        break;
      case allocator::PinnedReport::Kind::not_locked:
        flags |= TIDEMARK_PINNED_NOT_LOCKED;
        break;
    }
  }
  return flags;
}

tidemark_session_report to_c(const swap::SessionReport& r, const ServedRequests& served) {
  return {.struct_size = 0,
          .steps = r.counts.steps,
          .rebuilt = r.counts.rebuilt,
          .departures = r.counts.departures,
          .kept_for_host = r.counts.kept_for_host,
          .copies_out = r.out.copies,
          .copied_out_bytes = r.out.bytes,
          .copies_in = r.in.copies,
          .copied_in_bytes = r.in.bytes,
          .pieces = r.out.pieces + r.in.pieces,
          .waits = r.waits.waits,
          .waited_bytes = r.waits.bytes,
          .late = r.waits.late,
          .late_bytes = r.waits.late_bytes,
          .waited_ns = r.waits.waited_ns,
          .pinned_bytes = r.pinned_held_bytes,
          .pinned_peak_bytes = r.pinned_peak_bytes,
          .steps_open = r.steps_open,
          .planned_bytes = served.extent_bytes(),
          .requests_planned = served.counts().served,
          .requests_unplanned = served.counts().unplanned,
          .requests_blocked = served.counts().blocked,
          .copy_streams = r.copy_streams,
          .requests_small = served.counts().unordered,
          .pinned_shortfalls = shortfalls_of(r.pinned_reports),
          .requests_guests = served.counts().guests,
          .spilled = r.counts.spilled,
          .spilled_bytes = r.counts.spilled_bytes,
          .dropped = r.counts.dropped,
          .dropped_bytes = r.counts.dropped_bytes,
          .requests_other_threads = served.requests_of_other_threads()};
}

}  // namespace

extern "C" {

tidemark_status tidemark_session_open(const tidemark_plan* plan, int32_t position, tidemark_device* device,
                                      const tidemark_session_options* options, tidemark_session** session,
                                      tidemark_error** error) noexcept {
  if (session != nullptr) *session = nullptr;
  return guarded(error, [&]() -> Outcome {
    if (session == nullptr) return invalid("session is NULL");
    if (device == nullptr) return invalid("device is NULL");
    const formats::PlanFile::Rank* rank = nullptr;
    if (Outcome o = rank_at(plan, position, rank); !o.ok()) return o;
    tidemark_session_options known;
    if (Outcome o = read_options(options, "tidemark_session_options", known); !o.ok()) return o;
    if (Outcome o = check_options(known); !o.ok()) return o;
    if (Outcome o = check_requests(known); !o.ok()) return o;
    Result<std::unique_ptr<plan::RankPlan>> sound = sound_rank(*plan, *rank);
    if (!sound) return outcome_of(sound.error());
    const Program& program = sound.value()->program;
    const swap::FollowedLoop loop = loop_of(sound.value()->graph, known);
    const auto log = std::make_shared<SessionLog>();
    swap::SessionOptions asked{.loop = loop, .host_bytes = known.host_bytes};
    if (known.record != nullptr) asked.log = [log](const swap::SessionEvent& event) { log->append(event); };
    auto served = std::make_shared<ServedRequests>();
    if (known.allocator != nullptr) {
      Result<std::vector<allocator::PlannedBlock>> blocks = planned_blocks(program, loop, known);
      if (!blocks) return outcome_of(blocks.error());
      served = std::make_shared<ServedRequests>(known.allocator->group, std::move(blocks).value());
      asked.reached = [requests = std::weak_ptr(served)](std::int32_t time) {
        if (const auto there = requests.lock()) there->advance(time);
      };
    }
    Result<std::unique_ptr<swap::Session>> opened =
        swap::Session::open(program, *device->device, std::move(asked), calls_of(known));
    if (!opened) return outcome_of(opened.error());
    if (known.record != nullptr)
      if (Status s = log->create(known.record, known.host_bytes, loop); !s) return outcome_of(s.error());
    *session = new tidemark_session{
        .device = device->device, .log = log, .session = std::move(opened).value(), .requests = std::move(served)};
    return {};
  });
}

void tidemark_session_close(tidemark_session* session) noexcept {
  delete session;
}

int32_t tidemark_session_is_managed(const tidemark_session* session, int32_t storage) noexcept {
  return session != nullptr && storage >= 0 && session->session->is_managed(static_cast<StorageId>(storage)) ? 1 : 0;
}

int32_t tidemark_session_is_rebuilt(const tidemark_session* session, int32_t op) noexcept {
  const bool is_op = session != nullptr && op >= 0 && static_cast<std::size_t>(op) < session->session->op_count();
  return is_op && session->session->is_rebuilt(static_cast<OpId>(op)) ? 1 : 0;
}

tidemark_status tidemark_session_begin_step(tidemark_session* session, tidemark_stream stream,
                                            tidemark_error** error) noexcept {
  return guarded(error, [&]() -> Outcome {
    if (session == nullptr) return invalid("session is NULL");
    session->session->begin_step(stream_of(stream));
    if (stream == TIDEMARK_CALLING_THREAD) {
      session->requests->begin_step(StreamHandle{}, std::this_thread::get_id());
    } else {
      session->requests->begin_step(static_cast<StreamHandle>(stream), {});
    }
    return log_news(*session);
  });
}

tidemark_status tidemark_session_expect_requests(tidemark_session* session, int32_t requests,
                                                 tidemark_error** error) noexcept {
  return guarded(error, [&]() -> Outcome {
    if (session == nullptr) return invalid("session is NULL");
    switch (requests) {
      case TIDEMARK_REQUESTS_PLANNED:
        session->requests->expect(allocator::Requests::planned);
        return {};
      case TIDEMARK_REQUESTS_OTHER:
        session->requests->expect(allocator::Requests::other);
        return {};
      case TIDEMARK_REQUESTS_TRANSIENT:
        session->requests->expect(allocator::Requests::transient);
        return {};
      default:
        return invalid("requests is " + std::to_string(requests) + "; right would be one of TIDEMARK_REQUESTS_*");
    }
  });
}

tidemark_status tidemark_session_op(tidemark_session* session, int32_t op, tidemark_stream stream,
                                    tidemark_error** error) noexcept {
  return in_step(session, error, [&](swap::Session& s) -> Outcome {
    if (Outcome o = check_op(s, op); !o.ok()) return o;
    return outcome_of_status(s.tell(static_cast<OpId>(op), stream_of(stream)));
  });
}

tidemark_status tidemark_session_take(tidemark_session* session, int32_t storage, tidemark_block block,
                                      tidemark_stream stream, tidemark_error** error) noexcept {
  return in_step(session, error, [&](swap::Session& s) -> Outcome {
    if (Outcome o = check_storage(s, storage); !o.ok()) return o;
    if (Outcome o = check_block(block); !o.ok()) return o;
    s.take(static_cast<StorageId>(storage), block_of(block), stream_of(stream));
    return {};
  });
}

tidemark_status tidemark_session_adopt(tidemark_session* session, tidemark_block block, tidemark_stream stream,
                                       int32_t* storage, tidemark_error** error) noexcept {
  return in_step(session, error, [&](swap::Session& s) -> Outcome {
    if (storage == nullptr) return invalid("storage is NULL");
    if (Outcome o = check_block(block); !o.ok()) return o;
    *storage = static_cast<std::int32_t>(s.adopt(block_of(block), stream_of(stream)));
    return {};
  });
}

tidemark_status tidemark_session_keep(tidemark_session* session, int32_t op, tidemark_error** error) noexcept {
  return in_step(session, error, [&](swap::Session& s) -> Outcome {
    if (Outcome o = check_op(s, op); !o.ok()) return o;
    s.keep(static_cast<OpId>(op));
    return {};
  });
}

tidemark_status tidemark_session_save(tidemark_session* session, int32_t storage, int32_t op, int32_t until,
                                      tidemark_saved** saved, tidemark_error** error) noexcept {
  if (saved != nullptr) *saved = nullptr;
  return in_step(session, error, [&](swap::Session& s) -> Outcome {
    if (saved == nullptr) return invalid("saved is NULL");
    if (Outcome o = check_saved(s, storage); !o.ok()) return o;
    for (const std::int32_t one : {op, until})
      if (Outcome o = one == -1 ? Outcome{} : check_op(s, one); !o.ok()) return o;
    auto made = std::make_unique<tidemark_saved>(tidemark_saved{.device = session->device, .saved = {}});
    made->saved =
        s.save(static_cast<StorageId>(storage), {.op = static_cast<OpId>(op), .until = static_cast<OpId>(until)});
    *saved = made.release();
    return {};
  });
}

tidemark_status tidemark_session_use(tidemark_saved* saved, int32_t again, tidemark_stream stream,
                                     tidemark_block* block, int32_t* handed_over, tidemark_error** error) noexcept {
  return guarded(error, [&]() -> Outcome {
    if (saved == nullptr) return invalid("saved is NULL");
    if (block == nullptr || handed_over == nullptr) return invalid("block or handed_over is NULL");
    const Result<swap::UsedStorage> used = swap::Session::use(saved->saved, again != 0, stream_of(stream));
    if (!used) return outcome_of(used.error());
    *block = to_c(used.value().block);
    *handed_over = used.value().is_handed_over ? 1 : 0;
    return {};
  });
}

void tidemark_session_free(tidemark_saved* saved) noexcept {
  if (saved == nullptr) return;
  static_cast<void>(guarded(nullptr, [&]() -> Outcome {
    swap::Session::free(saved->saved);
    return {};
  }));
  delete saved;
}

tidemark_status tidemark_session_change(tidemark_session* session, void* handle, int32_t planned,
                                        tidemark_stream stream, tidemark_error** error) noexcept {
  return guarded(error, [&]() -> Outcome {
    if (session == nullptr) return invalid("session is NULL");
    return outcome_of_status(session->session->change(handle, planned != 0, stream_of(stream)));
  });
}

tidemark_status tidemark_session_make_room(tidemark_session* session, int64_t bytes, tidemark_stream stream,
                                           int64_t* given_up, tidemark_error** error) noexcept {
  if (given_up != nullptr) *given_up = 0;
  return guarded(error, [&]() -> Outcome {
    if (session == nullptr) return invalid("session is NULL");
    if (given_up == nullptr) return invalid("given_up is NULL");
    if (bytes < 0 || bytes > kMostBytes) return invalid("bytes is " + std::to_string(bytes));
    const Result<Bytes> made = session->session->make_room(bytes, stream_of(stream));
    if (!made) return outcome_of(made.error());
    *given_up = made.value();
    return {};
  });
}

int32_t tidemark_session_find(const tidemark_session* session, void* handle) noexcept {
  return session == nullptr ? -1 : static_cast<int32_t>(session->session->find(handle));
}

tidemark_status tidemark_session_end_step(tidemark_session* session, tidemark_stream stream,
                                          tidemark_error** error) noexcept {
  return in_step(session, error, [&](swap::Session& s) -> Outcome {
    s.end_step(stream_of(stream));
    return log_news(*session);
  });
}

tidemark_status tidemark_session_get_report(const tidemark_session* session, tidemark_session_report* report,
                                            tidemark_error** error) noexcept {
  return guarded(error, [&]() -> Outcome {
    if (session == nullptr) return invalid("session is NULL");
    return write_result(to_c(session->session->report(), *session->requests), "report", report);
  });
}

}  // extern "C"
