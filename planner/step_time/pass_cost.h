#pragma once
// What one pass (forward or backward) of a part of the model costs one rank and micro-batch, by what takes the time.

#include "planner/cost/matmul_time.h"

namespace tidemark::step_time {

struct PassCost {
  double matmul_s = 0, attention_s = 0, vector_s = 0;
  double tensor_s = 0;   ///< collectives beside which nothing runs: tensor, context and expert tensor parallel
  double expert_s = 0;   ///< dispatch and combine, what is not hidden
  double copy_s = 0;     ///< to and from host memory, what is not hidden
  double wait_s = 0;     ///< of the device for the host, where they meet in every pass
  double launches = 0;   ///< of the host
  double latency_s = 0;  ///< that the host's launches wait for: collectives'

  [[nodiscard]] double device_s() const {
    return matmul_s + attention_s + vector_s + tensor_s + expert_s + copy_s + wait_s;
  }

  PassCost& operator+=(const PassCost& other) {
    matmul_s += other.matmul_s;
    attention_s += other.attention_s;
    vector_s += other.vector_s;
    tensor_s += other.tensor_s;
    expert_s += other.expert_s;
    copy_s += other.copy_s;
    wait_s += other.wait_s;
    launches += other.launches;
    latency_s += other.latency_s;
    return *this;
  }
  friend PassCost operator+(PassCost a, const PassCost& b) { return a += b; }
  friend PassCost operator*(double times, const PassCost& cost) {
    return {.matmul_s = times * cost.matmul_s,
            .attention_s = times * cost.attention_s,
            .vector_s = times * cost.vector_s,
            .tensor_s = times * cost.tensor_s,
            .expert_s = times * cost.expert_s,
            .copy_s = times * cost.copy_s,
            .wait_s = times * cost.wait_s,
            .launches = times * cost.launches,
            .latency_s = times * cost.latency_s};
  }
};

struct Passes {
  PassCost forward, backward;

  [[nodiscard]] PassCost both() const { return forward + backward; }

  Passes& operator+=(const Passes& other) {
    forward += other.forward;
    backward += other.backward;
    return *this;
  }
  /// A product's matmul seconds.
  void add_matmul(const cost::MatmulPasses& matmul) {
    forward.matmul_s += matmul.forward_s;
    backward.matmul_s += matmul.backward_s;
  }
  /// Vector work whose backward reads and writes twice the forward's bytes: gradients beside values.
  void add_vector(double forward_s) {
    forward.vector_s += forward_s;
    backward.vector_s += 2 * forward_s;
  }
};

}  // namespace tidemark::step_time
