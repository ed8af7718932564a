// The session's engine as a Python module.

#include <ATen/SavedTensorHooks.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/PyInterpreter.h>
#include <torch/csrc/Storage.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "integrations/pytorch/csrc/fixed_tensor.h"
#include "integrations/pytorch/csrc/session_engine.h"

namespace py = pybind11;
using namespace tidemark_torch;

namespace {

/// Planned calls and saves of a place are lists with None where nothing was captured.
void add_calls(PlannedBatch& batch, const PlaceInModel& place, const py::list& calls) {
  auto& out = batch.calls[place];
  for (const auto& item : calls) {
    if (item.is_none()) {
      out.emplace_back();
      continue;
    }
    const auto call = item.cast<py::tuple>();
    out.emplace_back(PlannedCall{intern(call[0].cast<std::string>()), call[1].cast<int>(), call[2].cast<bool>(),
                                 call[3].cast<bool>(), call[4].cast<bool>(), call[5].cast<std::vector<int>>(),
                                 call[6].cast<std::vector<int>>()});
  }
}

void add_saves(PlannedBatch& batch, const PlaceInModel& place, const py::list& saves) {
  auto& out = batch.saves[place];
  for (const auto& item : saves) {
    if (item.is_none()) {
      out.emplace_back();
      continue;
    }
    const auto save = item.cast<py::tuple>();
    out.emplace_back(PlannedSave{save[0].cast<int>(), save[1].cast<int>(), save[2].cast<int>()});
  }
}

py::dict report_of(const SessionSteps& steps) {
  const tidemark_session_report r = steps.report();
  py::dict out;
  out["steps"] = r.steps;
  out["rebuilt"] = r.rebuilt;
  out["departures"] = r.departures;
  out["kept_for_host"] = r.kept_for_host;
  out["copies_out"] = r.copies_out;
  out["copied_out_bytes"] = r.copied_out_bytes;
  out["copies_in"] = r.copies_in;
  out["copied_in_bytes"] = r.copied_in_bytes;
  out["pieces"] = r.pieces;
  out["copy_streams"] = r.copy_streams;
  out["waits"] = r.waits;
  out["waited_bytes"] = r.waited_bytes;
  out["late"] = r.late;
  out["late_bytes"] = r.late_bytes;
  out["waited_ns"] = r.waited_ns;
  out["pinned_bytes"] = r.pinned_bytes;
  out["pinned_peak_bytes"] = r.pinned_peak_bytes;
  out["steps_open"] = r.steps_open;
  out["planned_bytes"] = r.planned_bytes;
  out["requests_planned"] = r.requests_planned;
  out["requests_unplanned"] = r.requests_unplanned;
  out["requests_blocked"] = r.requests_blocked;
  out["requests_small"] = r.requests_small;
  out["pinned_shortfalls"] = r.pinned_shortfalls;
  out["requests_guests"] = r.requests_guests;
  out["spilled"] = r.spilled;
  out["spilled_bytes"] = r.spilled_bytes;
  out["dropped"] = r.dropped;
  out["dropped_bytes"] = r.dropped_bytes;
  out["requests_other_threads"] = r.requests_other_threads;
  return out;
}

/// PyTorch's own exceptions are the same as from its own functions: memory may run out while something is rebuilt.
void translate(std::exception_ptr error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const Error& found) {
    set_python_error(found);
  } catch (const c10::Error&) {
    torch::translate_exception_to_python(error);
  }
}

/// Python's own data_ptr() makes a storage that is copied on write the storage's own.
std::uintptr_t storage_address(const py::object& storage) {
  return reinterpret_cast<std::uintptr_t>(THPStorage_Unpack(storage.ptr()).data());
}

/// What packs tensors that the calling thread saves, None where nothing does. PyTorch tells Python so from 2.8 on only.
py::object top_pack_hook() {
  const auto& hooks = at::SavedTensorDefaultHooks::get_tls_state().stack;
  if (hooks.empty()) return py::none();
  return py::reinterpret_borrow<py::object>(hooks.top().first.ptr(getPyInterpreter()));
}

}  // namespace

PYBIND11_MODULE(tidemark_session, module) {
  py::register_local_exception_translator(&translate);
  py::class_<Counters, std::shared_ptr<Counters>>(module, "Counters")
      .def(py::init<>())
      .def_readwrite("off_plan", &Counters::off_plan)
      .def_readwrite("micro_batches", &Counters::micro_batches);
  py::class_<PlannedBatch, std::shared_ptr<PlannedBatch>>(module, "PlannedBatch")
      .def(py::init<>())
      .def("add_calls", &add_calls)
      .def("add_saves", &add_saves);
  py::class_<SessionSteps, std::shared_ptr<SessionSteps>>(module, "SessionSteps")
      .def(py::init([](const py::bytes& plan_file, const std::string& device, const std::vector<int>& part_of_op,
                       std::int64_t host_bytes, std::int64_t copy_bytes_per_s, py::object raw_stream,
                       const std::string& record, std::uintptr_t allocator, const std::vector<RequestRow>& requests,
                       const std::vector<int>& may_spill, std::uintptr_t submit_queued) {
        return std::make_shared<SessionSteps>(plan_file, c10::Device(device), part_of_op, host_bytes, copy_bytes_per_s,
                                              std::move(raw_stream), record,
                                              reinterpret_cast<tidemark_allocator*>(allocator), requests, may_spill,
                                              reinterpret_cast<tidemark_submit_queued>(submit_queued));
      }))
      .def("is_managed", &SessionSteps::is_managed)
      .def("is_rebuilt", &SessionSteps::is_rebuilt)
      .def("expect_requests", &SessionSteps::expect_requests)
      .def("report", &report_of);
  module.attr("REQUESTS_PLANNED") = static_cast<int>(TIDEMARK_REQUESTS_PLANNED);
  module.attr("REQUESTS_OTHER") = static_cast<int>(TIDEMARK_REQUESTS_OTHER);
  module.attr("REQUESTS_TRANSIENT") = static_cast<int>(TIDEMARK_REQUESTS_TRANSIENT);
  py::class_<Frame, std::shared_ptr<Frame>>(module, "Frame").def_readonly("path", &Frame::path);
  module.def("count_phases", [](std::uintptr_t function) { count_phases(reinterpret_cast<SetPhase>(function)); });
  module.def("top_pack_hook", &top_pack_hook);
  module.def("fixed_tensor", &fixed_tensor);
  module.def("storage_address", &storage_address);
  module.def("make_room_address", [] { return reinterpret_cast<std::uintptr_t>(&make_room_of_session); });
  py::enum_<Kernels>(module, "Kernels")
      .value("forwards", Kernels::forwards)
      .value("unfollowed", Kernels::unfollowed)
      .value("make_state", Kernels::make_state);
  py::class_<SessionEngine, std::shared_ptr<SessionEngine>>(module, "SessionEngine")
      .def(py::init<std::vector<std::shared_ptr<PlannedBatch>>, std::shared_ptr<SessionSteps>, py::object, py::object,
                    std::shared_ptr<Counters>>())
      .def("close", &SessionEngine::close)
      .def("begin", &SessionEngine::begin)
      .def("begins_step", &SessionEngine::begins_step)
      .def("is_abandoned", &SessionEngine::is_abandoned)
      .def("expect", &SessionEngine::expect)
      .def("follow", &SessionEngine::follow)
      .def("begin_record",
           [](SessionEngine& engine, std::uintptr_t allocator) {
             engine.begin_record(reinterpret_cast<tidemark_allocator*>(allocator));
           })
      .def("end_record",
           [](SessionEngine& engine) {
             py::list seen;
             for (const SeenKernel& kernel : engine.end_record())
               seen.append(py::make_tuple(*kernel.name, kernel.outputs, kernel.before, kernel.events));
             return seen;
           })
      .def("frame", &SessionEngine::frame)
      .def("enter", &SessionEngine::enter)
      .def("leave_plan", &SessionEngine::leave_plan)
      .def("pack", &SessionEngine::pack)
      .def("unpack", &SessionEngine::unpack)
      .def("push", [](std::shared_ptr<SessionEngine> engine) { push_watch(std::move(engine)); })
      .def("pop", [](SessionEngine&) { pop_watch(); })
      .def("is_on_top", [](SessionEngine&) { return is_watch_on_top(); });
}
