#pragma once
// Which op templates of a graph are the operators of eager_kernels.h, and on how many elements each works.

#include <cstdint>
#include <optional>

#include "core/graph.h"
#include "core/ids.h"
#include "planner/graph_build/device_shapes.h"
#include "planner/graph_build/job_spec.h"
#include "planner/prices/eager_kernels.h"

namespace tidemark::prices {

struct OperatorUse {
  Operator op = Operator::rms_norm;
  bool is_backward = false;
  double elements = 0;  ///< at expert load 1
  double tensors = 1;   ///< kernels are launched for each
};

/// By the op's name, as planner/graph_build gives it. `example`: an op of the template. Nothing: another operator.
[[nodiscard]] std::optional<OperatorUse> operator_use(const Graph& graph, OpId example,
                                                      const graph_build::ModelSpec& model,
                                                      const graph_build::DeviceShapes& shapes);

/// The activation that an op reads first, which an eager forward pass keeps more beside; none: it reads no activation.
[[nodiscard]] std::optional<StorageId> first_activation_read(const Graph& graph, OpId op);

}  // namespace tidemark::prices
