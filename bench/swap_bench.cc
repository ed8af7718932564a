// Question: of the swap time that the plan says is hidden behind computing, how much is hidden when the plan is carried
// out?
//
//   swap_bench [model.yaml [device.yaml [GB/s [rank]]]]     default: the 718B job on its device, 1 GB/s a direction on
//                                                           `host`, and the rank that copies most
//
// Hidden = time the two copy lanes are busy less time the compute lane stands still for a copy (the same function over
// the tasks' times on both sides). The share hidden of the run is compared with the share hidden of the plan; goal 95
// %. simulated: all ranks in one virtual time on `sim`, true sizes; the plan's side is its simulator's step. measured:
// one rank on `host` at 1/64: real copies between mapped and pinned memory, each direction throttled to the
//            rate given; launches take their estimate, stretched until the links are to computing as in the plan. It
//            runs alone, its receives are there at once: so the plan's side is its simulator on the rank alone, too. A
//            marker behind each piece of work tells when it ended. Median of three steps.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "bench/job_request.h"
#include "device/forwarding_device.h"
#include "device/host_device.h"
#include "integrations/run/sim_run.h"
#include "planner/planner.h"
#include "planner/simulate/simulator.h"
#include "policies/policies.h"
#include "swap/executor.h"

namespace tidemark {
namespace {

using bench::must;

constexpr std::int64_t kScale = 64;
constexpr int kSteps = 3;
constexpr double kGoalPercent = 95;

void must(DeviceCode code, Device& device) {
  if (code == DeviceCode::ok) return;
  fmt::print(stderr, "swap_bench: {}: {}\n", name_of(code), device.last_error());
  std::exit(3);
}

/// Copies of one rank's step.
struct SwapTime {
  std::int64_t busy_ns = 0;   ///< both copy lanes
  std::int64_t stall_ns = 0;  ///< compute lane idle for a copy
  [[nodiscard]] std::int64_t hidden_ns() const { return busy_ns - stall_ns; }
  [[nodiscard]] double share() const {
    return busy_ns == 0 ? 1 : static_cast<double>(hidden_ns()) / static_cast<double>(busy_ns);
  }
};

SwapTime swap_time(const Schedule& schedule, const std::vector<SimSpan>& spans) {
  SwapTime time{.stall_ns = run::copy_stall(schedule, spans)};
  for (const SimSpan& span : spans)
    if (span.is_copy) time.busy_ns += span.end_ns - span.start_ns;
  return time;
}

bool is_copy(const Task& task) {
  return task.kind == TaskKind::swap_in || task.kind == TaskKind::swap_out;
}

/// What the plan's simulator says.
SwapTime planned(const Schedule& schedule, const simulate::Timeline& timeline) {
  std::vector<SimSpan> spans;
  for (std::size_t t = 0; t < schedule.tasks.size(); ++t)
    spans.push_back({.id = static_cast<std::int64_t>(t),
                     .start_ns = timeline.start_ns[t],
                     .end_ns = timeline.end_ns[t],
                     .is_copy = is_copy(schedule.tasks[t])});
  return swap_time(schedule, spans);
}

/// The rank alone: what it receives is there at once.
SwapTime planned_alone(const plan::RankPlan& plan) {
  simulate::RankWork work = simulate::work_of(plan.graph, plan.program.schedule, plan.task_ns);
  work.messages.clear();
  for (std::size_t t = 0; t < work.lanes.size(); ++t)
    if (work.lanes[t] == Lane::receive) work.duration_ns[t] = 0;
  std::vector<simulate::RankWork> ranks;
  ranks.push_back(std::move(work));
  return planned(plan.program.schedule, must(simulate::simulate_step(ranks)).ranks.front());
}

// --- simulated

struct Row {
  std::int32_t rank = 0;
  SwapTime plan, run;
};

void print(const Row& row, double percent) {
  const auto ms = [](std::int64_t ns) { return static_cast<double>(ns) * 1e-6; };
  fmt::print("{:>5} {:>12.1f} {:>12.1f} {:>10.2f} {:>12.1f} {:>12.1f} {:>10.2f} {:>10.2f}\n", row.rank,
             ms(row.plan.busy_ns), ms(row.plan.stall_ns), 100 * row.plan.share(), ms(row.run.busy_ns),
             ms(row.run.stall_ns), 100 * row.run.share(), percent);
}

void print_head(const char* run) {
  fmt::print("{:>5} {:>36} {:>36}\n", "", "plan (modelled)", run);
  fmt::print("{:>5} {:>12} {:>12} {:>10} {:>12} {:>12} {:>10} {:>10}\n", "rank", "copies ms", "stall ms", "hidden %",
             "copies ms", "stall ms", "hidden %", "% of plan");
}

double percent_of(const Row& row) {
  return row.plan.share() > 0 ? 100 * row.run.share() / row.plan.share() : 100;
}

void show(const std::vector<Row>& rows) {
  double least = 1e9;
  for (const Row& row : rows) {
    print(row, percent_of(row));
    least = std::min(least, percent_of(row));
  }
  fmt::print("least: {:.2f} % of what the plan hides is hidden; goal {:.0f} %: {}\n\n", least, kGoalPercent,
             least >= kGoalPercent ? "met" : "NOT MET");
}

void simulate(const plan::PlanOutcome& plan, const Machine& machine) {
  const run::SimRun run = must(run::run_on_sim({.ranks = plan.ranks, .machine = machine, .check_races = false}));
  std::vector<Row> rows;
  for (std::size_t r = 0; r < run.ranks.size(); ++r) {
    const plan::RankPlan& rank = plan.ranks[r];
    Row row{.rank = rank.figures.rank,
            .plan = planned(rank.program.schedule, rank.timeline),
            .run = {.stall_ns = run.ranks[r].copy_stall_ns}};
    for (const SimStreamStatistics& stream : run.ranks[r].statistics.streams)
      if (stream.name == "d2h" || stream.name == "h2d") row.run.busy_ns += stream.busy_ns;
    if (row.plan.busy_ns > 0) rows.push_back(row);
  }
  fmt::print("simulated, virtual time: all {} ranks on `sim`, those that swap are listed\n", run.ranks.size());
  print_head("run (simulated)");
  show(rows);
}

// --- measured

/// Times of one stream's work: starts and ends alternate. Written by the stream's thread alone, read when it rests.
struct StreamLog {
  std::vector<std::int64_t> times;
  std::vector<SimSpan> work;  ///< as submitted; times to be filled in
};

thread_local StreamLog* this_streams_log = nullptr;

/// Notes when work starts and ends, with an empty launch behind each piece.
class ObservedDevice : public ForwardingDevice {
 public:
  /// The options of the device that is observed: its hook tells when a piece of work starts.
  static HostDeviceOptions with_hook(HostDeviceOptions options, StreamLog*& newcomer) {
    options.fault = [&newcomer](HostCall call) {
      if (call != HostCall::run_copy && call != HostCall::run_launch) return DeviceCode::ok;
      if (this_streams_log == nullptr)
        this_streams_log = newcomer;  // the first launch of a stream
      else
        this_streams_log->times.push_back(std::chrono::steady_clock::now().time_since_epoch().count());
      return DeviceCode::ok;
    };
    return options;
  }
  ObservedDevice(Device& to, StreamLog*& newcomer) : ForwardingDevice(to), newcomer_(newcomer) {}

  DeviceCode create_stream(StreamRole role, StreamHandle& stream) override {
    if (const DeviceCode code = ForwardingDevice::create_stream(role, stream); code != DeviceCode::ok) return code;
    newcomer_ = &logs_.emplace_back();
    of_stream_.push_back(stream);
    if (const DeviceCode code = ForwardingDevice::launch(stream, {}); code != DeviceCode::ok) return code;
    return ForwardingDevice::synchronize_stream(stream);
  }
  DeviceCode copy(StreamHandle stream, Address to, Address from, Bytes bytes, CopyKind kind, std::int64_t id) override {
    log_of(stream).work.push_back({.stream = stream, .id = id, .is_copy = true});
    const DeviceCode code = ForwardingDevice::copy(stream, to, from, bytes, kind, id);
    return code == DeviceCode::ok ? ForwardingDevice::launch(stream, {}) : code;
  }
  DeviceCode launch(StreamHandle stream, const Work& work) override {
    log_of(stream).work.push_back({.stream = stream, .id = work.id});
    const DeviceCode code = ForwardingDevice::launch(stream, work);
    return code == DeviceCode::ok ? ForwardingDevice::launch(stream, {}) : code;
  }

  /// What ran since the last call. REQUIRES: nothing is in flight.
  [[nodiscard]] std::vector<SimSpan> take_spans() {
    std::vector<SimSpan> spans;
    for (StreamLog& log : logs_) {
      for (std::size_t i = 0; i < log.work.size(); ++i) {
        SimSpan span = log.work[i];
        span.start_ns = log.times[2 * i];
        span.end_ns = log.times[2 * i + 1];
        spans.push_back(span);
      }
      log = {};
    }
    return spans;
  }

 private:
  StreamLog& log_of(StreamHandle stream) {
    const auto found = std::find(of_stream_.begin(), of_stream_.end(), stream);
    return logs_[static_cast<std::size_t>(found - of_stream_.begin())];
  }

  StreamLog*& newcomer_;
  std::deque<StreamLog> logs_;  ///< stays where it is
  std::vector<StreamHandle> of_stream_;
};

HostDeviceOptions host_options(const plan::RankPlan& plan, const Machine& machine, double bytes_per_s) {
  constexpr Bytes kPage = 4 * kKiB;
  HostDeviceOptions options{.capacity_bytes = 0,
                            .granule_bytes = std::max(kPage, 2 * kMiB / kScale),
                            .d2h_bytes_per_s = static_cast<Bytes>(bytes_per_s),
                            .h2d_bytes_per_s = static_cast<Bytes>(bytes_per_s)};
  for (const Arena& arena : plan.program.layout.arenas)
    if (arena.space == MemorySpace::device)
      options.capacity_bytes +=
          round_up(arena.height_bytes / kScale + 2 * options.granule_bytes, options.granule_bytes);
  options.play_estimates = machine.d2h.bytes_per_s / bytes_per_s / static_cast<double>(kScale);
  return options;
}

void measure(const plan::RankPlan& plan, const Machine& machine, double bytes_per_s) {
  StreamLog* newcomer = nullptr;
  const HostDeviceOptions options = ObservedDevice::with_hook(host_options(plan, machine, bytes_per_s), newcomer);
  const std::unique_ptr<Device> host = must(open_host_device(options));
  ObservedDevice device(*host, newcomer);
  const std::unique_ptr<swap::Executor> executor = must(swap::Executor::open(plan.program, device, {.scale = kScale}));
  std::vector<Row> rows;
  const SwapTime alone = planned_alone(plan);
  std::int64_t step_ns = 0;
  for (int i = 0; i < kSteps; ++i) {
    if (Status s = executor->issue(); !s) must(Result<int>(s.error()));
    step_ns = must(executor->finish()).step_ns;
    must(device.synchronize_device(), device);
    rows.push_back(
        {.rank = plan.figures.rank, .plan = alone, .run = swap_time(plan.program.schedule, device.take_spans())});
  }
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.run.share() < b.run.share(); });
  fmt::print(
      "measured: rank {} alone on `host` at 1/{}, copies throttled to {:.2f} GB/s a direction, launches stretched "
      "{:.3f} "
      "of their estimate, step {:.2f} s; median of {} steps\n",
      plan.figures.rank, kScale, bytes_per_s * 1e-9, options.play_estimates, static_cast<double>(step_ns) * 1e-9,
      kSteps);
  print_head("run (measured)");
  show({rows[rows.size() / 2]});
}

const plan::RankPlan* rank_to_measure(const plan::PlanOutcome& plan, int wanted) {
  const plan::RankPlan* best = nullptr;
  for (const plan::RankPlan& rank : plan.ranks) {
    if (wanted >= 0 && rank.figures.rank == wanted) return &rank;
    if (best == nullptr || rank.figures.swapped_bytes_per_step > best->figures.swapped_bytes_per_step) best = &rank;
  }
  return wanted < 0 ? best : nullptr;
}

int measure_plan(int argc, char** argv) {
  const std::string root = TIDEMARK_SOURCE_DIR;
  const std::string model = argc > 1 ? argv[1] : root + "/models/pangu-ultra-moe-718b.yaml";
  const std::string device = argc > 2 ? argv[2] : root + "/devices/ascend-910b-64g.yaml";
  const double bytes_per_s = 1e9 * (argc > 3 ? std::atof(argv[3]) : 1.0);
  if (!(bytes_per_s > 0) || argc > 5) {
    fmt::print(stderr, "usage: swap_bench [model.yaml [device.yaml [GB/s [rank]]]]\n");
    return 2;
  }
  const plan::PlanRequest request = bench::job_request(model, device);
  const plan::PlanOutcome plan = must(plan::plan_step(request));
  const plan::RankPlan* rank = rank_to_measure(plan, argc > 4 ? std::atoi(argv[4]) : -1);
  if (rank == nullptr || rank->figures.swapped_bytes_per_step == 0) {
    fmt::print(stderr, "swap_bench: there is no such rank, or it swaps nothing\n");
    return 2;
  }
  fmt::print("{} on {}, policy optimal; {}\n\n", request.job.model.name, request.machine.name,
             plan.fits() ? "fits" : "does not fit");
  simulate(plan, request.machine);
  measure(*rank, request.machine, bytes_per_s);
  return 0;
}

}  // namespace
}  // namespace tidemark

int main(int argc, char** argv) {
  return tidemark::measure_plan(argc, argv);
}
