#include "planner/graph_build/mlp.h"

#include "planner/graph_build/elementwise.h"
#include "planner/graph_build/linear.h"

namespace tidemark::graph_build {
namespace {

Linear first_linear(const BlockContext& c, const Mlp& mlp) {
  return {.name = mlp.op_name + ".fc1",
          .group = "mlp",
          .inner = c.model.hidden,
          .columns = activation_inputs(c.model, mlp.width),
          .split = Linear::Split::column,
          .input_bytes = mlp.input_bytes};
}

Linear second_linear(const BlockContext& c, const Mlp& mlp) {
  return {.name = mlp.op_name + ".fc2",
          .group = "mlp",
          .inner = mlp.width,
          .columns = c.model.hidden,
          .split = Linear::Split::row,
          .input_bytes = c.shapes.input_bytes()};
}

}  // namespace

MlpTensors forward_mlp(const BlockContext& c, const Mlp& mlp, Ref in, Ref out, const std::string& output_tag) {
  BlockBuilder& b = c.builder;
  const std::string fc1 = mlp.prefix + "fc1_out";
  const std::string act = mlp.prefix + "act_out";
  const MlpTensors t{.fc1_out = b.saved(fc1, c.full_bytes(activation_inputs(c.model, mlp.width))),
                     .act_out = b.saved(act, c.full_input_bytes(mlp.width))};
  b.tag(fc1);
  forward_linear(c, first_linear(c, mlp), in, t.fc1_out);
  b.recipe(fc1, {t.fc1_out});
  b.tag(act);
  forward_activation(c, mlp.op_name + ".activation", {.count = c.shapes.tokens}, mlp.width, t.fc1_out, t.act_out);
  b.recipe(act, {t.act_out});
  b.tag(output_tag);
  forward_linear(c, second_linear(c, mlp), t.act_out, out);
  return t;
}

void backward_mlp(const BlockContext& c, const Mlp& mlp, const MlpTensors& t, Ref in, Ref d_out, Ref d_in) {
  BlockBuilder& b = c.builder;
  const Ref d_act = b.temporary(mlp.prefix + "act_gradient", c.full_bytes(mlp.width));
  backward_linear(c, second_linear(c, mlp), t.act_out, d_out, d_act);
  const Ref d_fc1 = b.temporary(mlp.prefix + "fc1_gradient", c.full_bytes(activation_inputs(c.model, mlp.width)));
  backward_activation(c, mlp.op_name + ".activation", {.count = c.shapes.tokens}, mlp.width, t.fc1_out, d_act, d_fc1);
  backward_linear(c, first_linear(c, mlp), in, d_fc1, d_in);
}

}  // namespace tidemark::graph_build
