// The session's engine as a Python module.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>

#include <memory>
#include <utility>

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
    out.emplace_back(PlannedCall{intern(call[0].cast<std::string>()), call[1].cast<int>(), call[2].cast<int>(),
                                 call[3].cast<bool>(), call[4].cast<bool>(), call[5].cast<std::vector<int>>()});
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
    out.emplace_back(PlannedSave{save[0].cast<int>(), save[1].cast<int>(), save[2].cast<int>(), save[3].cast<bool>(),
                                 save[4].cast<bool>()});
  }
}

void add_instruction(PlannedBatch& batch, int before, int action, int target, bool last, bool to_host,
                     std::vector<int> kept) {
  batch.instructions.push_back({before, static_cast<Action>(action), target, last, to_host, std::move(kept)});
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

}  // namespace

PYBIND11_MODULE(tidemark_session, module) {
  py::register_local_exception_translator(&translate);
  py::class_<Counters, std::shared_ptr<Counters>>(module, "Counters")
      .def(py::init<>())
      .def_readwrite("recomputed", &Counters::recomputed)
      .def_readwrite("swapped", &Counters::swapped)
      .def_readwrite("off_plan", &Counters::off_plan)
      .def_readwrite("micro_batches", &Counters::micro_batches);
  py::class_<PlannedBatch, std::shared_ptr<PlannedBatch>>(module, "PlannedBatch")
      .def(py::init<>())
      .def_readwrite("copied_once", &PlannedBatch::copied_once)
      .def_readwrite("rebuilds", &PlannedBatch::rebuilds)
      .def_readwrite("shared", &PlannedBatch::shared)
      .def("add_calls", &add_calls)
      .def("add_saves", &add_saves)
      .def("add_instruction", &add_instruction);
  py::class_<Frame, std::shared_ptr<Frame>>(module, "Frame").def_readonly("path", &Frame::path);
  py::class_<Saved>(module, "Saved");
  module.def("count_phases", [](std::uintptr_t function) { count_phases(reinterpret_cast<SetPhase>(function)); });
  py::class_<SessionEngine>(module, "SessionEngine")
      .def(py::init<std::vector<std::shared_ptr<PlannedBatch>>, py::object, py::object, py::object,
                    std::shared_ptr<Counters>>())
      .def("close", &SessionEngine::close)
      .def("begin", &SessionEngine::begin)
      .def("let_go", &SessionEngine::let_go)
      .def("frame", &SessionEngine::frame)
      .def("enter", &SessionEngine::enter)
      .def("pack", &SessionEngine::pack)
      .def("unpack", &SessionEngine::unpack)
      .def("push", [](SessionEngine& engine) { push_watch(engine); })
      .def("pop", [](SessionEngine&) { pop_watch(); })
      .def("is_on_top", [](SessionEngine&) { return is_watch_on_top(); });
}
