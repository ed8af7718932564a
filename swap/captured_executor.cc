#include "swap/captured_executor.h"

#include <fmt/format.h>

#include <span>
#include <variant>

#include "allocator/give_back.h"
#include "swap/device_error.h"
#include "swap/verify_fixed_layout.h"

namespace tidemark::swap {
namespace {

constexpr StreamRole kRoles[] = {StreamRole::d2h, StreamRole::h2d};

const char* name_of(const FixedAction& action) {
  if (const auto* const copy = std::get_if<RangeCopy>(&action)) return copy->out ? "copying out" : "copying in";
  return std::holds_alternative<GranuleMove>(action) ? "moving memory" : "waiting";
}

struct Run {
  std::int64_t first = 0, granules = 0;
};

/// The unbroken runs of granules that are in the set.
std::vector<Run> runs_of(const std::vector<bool>& set) {
  std::vector<Run> runs;
  for (std::size_t at = 0; at < set.size(); ++at) {
    if (!set[at]) continue;
    if (at == 0 || !set[at - 1]) runs.push_back({.first = static_cast<std::int64_t>(at)});
    ++runs.back().granules;
  }
  return runs;
}

bool is_copied(const FixedRange& range) {
  for (const RangeSpan& span : range.spans)
    if (span.copied_in || span.copied_out) return true;
  return false;
}

}  // namespace

Result<std::unique_ptr<CapturedExecutor>> CapturedExecutor::open(Device& device, const CapturedPieces& step,
                                                                 Bytes spare_bytes) {
  const DeviceTraits& traits = device.traits();
  if (!traits.mapping)
    return infeasible(fmt::format(
        "captured graphs keep their addresses only on a device that can map memory; {} cannot", traits.name));
  const FixedUnits units{.granule_bytes = traits.granule_bytes,
                         .alignment_bytes = traits.alignment_bytes,
                         .tail_pad_bytes = traits.tail_pad_bytes};
  Result<FixedLayout> layout =
      lay_out_fixed(step, units, round_up(spare_bytes, units.granule_bytes) / units.granule_bytes);
  if (!layout) return layout.error();
  if (Status status = verify_fixed_layout(step, layout.value()); !status) return status.error();
  std::unique_ptr<CapturedExecutor> executor(new CapturedExecutor(device, std::move(layout).value()));
  for (const PieceStorage& storage : step.storages) executor->bytes_of_.push_back(storage.bytes);
  if (Status status = executor->take(); !status) return status.error();
  return executor;
}

CapturedExecutor::~CapturedExecutor() {
  // Failures have nobody to go to; a lost device takes everything back.
  (void)device_.synchronize_device();
  for (const Run& run : runs_of(has_memory_))
    allocator::give_back(
        [&] { return device_.unmap(address_of_granule(run.first), run.granules * layout_.units.granule_bytes); });
  if (base_ != 0)
    allocator::give_back([&] { return device_.release(base_, layout_.space_granules * layout_.units.granule_bytes); });
}

Status CapturedExecutor::take() {
  if (const DeviceCode code = take_memory(); code != DeviceCode::ok)
    return device_error(device_, code,
                        fmt::format("captured graphs: taking {} of device memory", format_bytes(layout_.peak_bytes())));
  std::vector<Bytes> arenas;
  for (const FixedRange& range : layout_.ranges) arenas.push_back(is_copied(range) ? range.bytes : 0);
  if (const DeviceCode code = host_.open(arenas, HostMemory::bytes_for(arenas)); code != DeviceCode::ok)
    return device_error(device_, code, "captured graphs: taking host memory for what is away");
  DeviceCode code = streams_.open(kRoles);
  if (code == DeviceCode::ok) code = take_events();
  if (code == DeviceCode::ok) return {};
  return device_error(device_, code, "captured graphs: taking streams and events");
}

DeviceCode CapturedExecutor::take_memory() {
  const Bytes granule = layout_.units.granule_bytes;
  if (layout_.space_granules == 0) return DeviceCode::ok;
  if (const DeviceCode code = device_.reserve(layout_.space_granules * granule, base_); code != DeviceCode::ok)
    return code;
  has_memory_.resize(static_cast<std::size_t>(layout_.space_granules));
  std::vector<bool> wanted(has_memory_.size());
  for (const std::int64_t at : layout_.opening) wanted[static_cast<std::size_t>(at)] = true;
  for (const Run& run : runs_of(wanted)) {
    if (const DeviceCode code = device_.map(address_of_granule(run.first), run.granules * granule);
        code != DeviceCode::ok)
      return code;
    for (std::int64_t i = 0; i < run.granules; ++i) has_memory_[static_cast<std::size_t>(run.first + i)] = true;
  }
  return DeviceCode::ok;
}

DeviceCode CapturedExecutor::take_events() {
  piece_events_.resize(static_cast<std::size_t>(layout_.pieces));
  out_events_.resize(layout_.ranges.size());
  in_events_.resize(layout_.ranges.size());
  for (const std::vector<FixedAction>& actions : layout_.before)
    for (const FixedAction& action : actions) {
      const auto* const wait = std::get_if<LaneWait>(&action);
      if (wait == nullptr) continue;
      std::optional<EventHandle>& event = event_of(wait->point);
      if (event) continue;
      EventHandle taken{};
      if (const DeviceCode code = pool_.acquire(taken); code != DeviceCode::ok) return code;
      event = taken;
    }
  return DeviceCode::ok;
}

std::optional<EventHandle>& CapturedExecutor::event_of(FixedPoint point) {
  const auto index = static_cast<std::size_t>(point.index);
  if (point.what == FixedPoint::What::piece) return piece_events_[index];
  return point.what == FixedPoint::What::copy_out ? out_events_[index] : in_events_[index];
}

std::vector<HostRange> CapturedExecutor::host_side(StorageId storage) {
  const RangeId range = layout_.range_of[row(storage)];
  if (!is_copied(layout_.ranges[row(range)])) return {};
  const Bytes base = layout_.ranges[row(range)].first_granule * layout_.units.granule_bytes;
  const HostPiece part{.arena = id_of<ArenaId>(row(range)),
                       .offset = layout_.offset_of[row(storage)] - base,
                       .bytes = bytes_of_[row(storage)]};
  const std::span<const HostRange> ranges = host_.ranges_of(std::span(&part, 1));
  return {ranges.begin(), ranges.end()};
}

Status CapturedExecutor::before_piece(PieceId piece, FrameworkStream stream) {
  const bool is_due = static_cast<std::int32_t>(piece) >= 0 && row(piece) == next_ && piece < PieceId{layout_.pieces};
  if (!is_due)
    return bad_input(
        next_ == static_cast<std::size_t>(layout_.pieces)
            ? fmt::format("piece {} is announced where the step is to be ended", static_cast<std::int32_t>(piece))
            : fmt::format("piece {} is announced where piece {} is due", static_cast<std::int32_t>(piece), next_));
  if (const DeviceCode code = enter(stream); code != DeviceCode::ok) return failed(code, next_, "ordering streams");
  return go_on(next_);
}

DeviceCode CapturedExecutor::enter(FrameworkStream stream) {
  // The thread's work is done once it calls again, so streams need no order behind it; it needs one behind theirs.
  const DeviceCode code = !stream && stream_ ? device_.synchronize_stream(*stream_) : framework_.enter(stream);
  if (code == DeviceCode::ok) stream_ = stream;
  return code;
}

Status CapturedExecutor::end_step() {
  if (next_ != static_cast<std::size_t>(layout_.pieces))
    return bad_input(fmt::format("the step is ended where piece {} is due", next_));
  if (Status status = go_on(next_); !status) return status;
  next_ = 0;
  ++figures_.steps;
  return {};
}

Status CapturedExecutor::go_on(std::size_t boundary) {
  if (!entered_ && boundary > 0 && stream_) {
    if (const std::optional<EventHandle> event = piece_events_[boundary - 1])
      if (const DeviceCode code = device_.record_event(*event, *stream_); code != DeviceCode::ok)
        return failed(code, boundary, "recording the piece before");
  }
  entered_ = true;
  for (const std::vector<FixedAction>& actions = layout_.before[boundary]; done_ < actions.size(); ++done_) {
    const FixedAction& action = actions[done_];
    const DeviceCode code = std::visit([this](const auto& what) { return carry_out(what); }, action);
    if (code != DeviceCode::ok) return failed(code, boundary, name_of(action));
  }
  entered_ = false;
  done_ = 0;
  next_ = boundary + 1;
  return {};
}

Status CapturedExecutor::failed(DeviceCode code, std::size_t boundary, const char* what) {
  const bool is_end = boundary == static_cast<std::size_t>(layout_.pieces);
  const std::string where =
      is_end ? "captured graphs, behind the last piece" : fmt::format("captured graphs, before piece {}", boundary);
  return device_error(device_, code, fmt::format("{}: {}", where, what));
}

DeviceCode CapturedExecutor::carry_out(const LaneWait& wait) {
  const EventHandle event = *event_of(wait.point);
  switch (wait.lane) {
    case FixedLane::host:
      ++figures_.host_waits;
      return device_.synchronize_event(event);
    case FixedLane::pieces:
      return stream_ ? device_.wait_event(*stream_, event) : device_.synchronize_event(event);
    case FixedLane::d2h:
      return streams_.wait(StreamRole::d2h, event);
    case FixedLane::h2d:
      break;
  }
  return streams_.wait(StreamRole::h2d, event);
}

DeviceCode CapturedExecutor::carry_out(const RangeCopy& copy) {
  const FixedRange& range = layout_.ranges[row(copy.range)];
  const HostPiece whole{.arena = id_of<ArenaId>(row(copy.range)), .offset = 0, .bytes = range.bytes};
  const std::span<const HostRange> host = host_.ranges_of(std::span(&whole, 1));
  const Address device = address_of_granule(range.first_granule);
  const auto id = static_cast<std::int64_t>(copy.range);
  const auto cause = TransferEngine::Cause::step;
  const DeviceCode code =
      copy.out ? transfers_.copy_out(host, device, id, cause) : transfers_.copy_in(device, host, id, cause);
  if (code != DeviceCode::ok) return code;
  const auto what = copy.out ? FixedPoint::What::copy_out : FixedPoint::What::copy_in;
  const std::optional<EventHandle> event = event_of({what, static_cast<std::int32_t>(copy.range)});
  if (!event) return DeviceCode::ok;
  return streams_.submit(copy.out ? StreamRole::d2h : StreamRole::h2d,
                         [&](StreamHandle stream) { return device_.record_event(*event, stream); });
}

DeviceCode CapturedExecutor::carry_out(const GranuleMove& move) {
  const DeviceCode code = device_.remap(address_of_granule(move.to), address_of_granule(move.from),
                                        move.granules * layout_.units.granule_bytes);
  if (code != DeviceCode::ok) return code;
  for (std::int64_t i = 0; i < move.granules; ++i) {
    has_memory_[static_cast<std::size_t>(move.from + i)] = false;
    has_memory_[static_cast<std::size_t>(move.to + i)] = true;
  }
  ++figures_.moves;
  figures_.moved_granules += move.granules;
  return DeviceCode::ok;
}

CapturedFigures CapturedExecutor::figures() const {
  CapturedFigures figures = figures_;
  figures.out = transfers_.out();
  figures.in = transfers_.in();
  return figures;
}

}  // namespace tidemark::swap
