// All that a session has to do for one micro-batch, as schedule.py compiled it. Storages and operations that run again
// are numbered from zero within the micro-batch; places in the step are numbers of its original operations.

#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tidemark_torch {

inline constexpr int kNone = -1;

struct PlannedCall {
  const std::string* kernel = nullptr;  // interned
  int place = 0;
  int rebuild = kNone;       // operation that runs again which it is a call of
  bool first = false;        // of its operation
  bool due = false;          // there is an instruction before it
  std::vector<int> outputs;  // storages by tensor returned, empty where none is looked after
};

struct PlannedSave {
  int storage = kNone;
  int use = kNone;      // place before which backward asks for it
  int shared = kNone;   // counter of the tensors that the same node asks for in one storage
  bool leaves = false;  // with the node of autograd's graph that asks: nobody needs it behind
  bool last = false;    // not even rebuilt
};

enum class Action { run, drop, wait, begin, back };

struct Instruction {
  int before = 0;  // place
  Action action = Action::run;
  int target = 0;         // operation that runs again, or storage
  bool last = false;      // drop: not needed again
  bool to_host = false;   // drop
  std::vector<int> kept;  // run: storages that are needed
};

using PlaceInModel = std::pair<std::string, int>;  // path of the module, and which call of it

struct PlannedBatch {
  std::map<PlaceInModel, std::vector<std::optional<PlannedCall>>> calls;
  std::map<PlaceInModel, std::vector<std::optional<PlannedSave>>> saves;
  std::vector<Instruction> instructions;  // by place
  std::vector<bool> copied_once;          // by storage: the copy in host memory serves again
  int rebuilds = 0;
  int shared = 0;

  [[nodiscard]] int storages() const { return static_cast<int>(copied_once.size()); }
};

}  // namespace tidemark_torch
