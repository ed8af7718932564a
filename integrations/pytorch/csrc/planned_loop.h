#pragma once
// Where in a model's forward its kernels and saved tensors are of a plan: what the session is told of. Storages and
// operations are numbered as in the graph that was planned.

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tidemark_torch {

inline constexpr int kNone = -1;

struct PlannedCall {
  const std::string* kernel = nullptr;  // interned
  int op = 0;
  bool first = false;        // of its operation
  bool rebuilt = false;      // its operation is recomputed
  bool apart = false;        // what it makes is not to stand among planned memory
  std::vector<int> outputs;  // managed storages by tensor returned, empty where none is looked after
  std::vector<int> reads;    // where it is rebuilt: managed storages that the session has for it then, or it makes itself
};

struct PlannedSave {
  int storage = kNone;  // managed
  int use = kNone;      // operation before which backward asks for it
  int until = kNone;    // last operation of the node that asks
};

using PlaceInModel = std::pair<std::string, int>;  // path of the module, and which call of it

struct PlannedBatch {
  std::map<PlaceInModel, std::vector<std::optional<PlannedCall>>> calls;
  std::map<PlaceInModel, std::vector<std::optional<PlannedSave>>> saves;
};

}  // namespace tidemark_torch
