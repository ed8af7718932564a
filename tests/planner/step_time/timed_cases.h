#pragma once
// Runs that differ each in one or a few things from a plain one, and what they take by an independent implementation.
//
// The reference seconds were computed once by the Python prototype of the same equations (`step(run, device, constants,
// software).seconds`), printed with all digits: the changes below were applied to its own run and software values, with
// the data sheet of an H100 and the rates of `hopper()`. None of them is measured.

#include <cstddef>

#include "planner/step_time/timed_run.h"

namespace tidemark::step_time {

/// An H100 SXM (NVIDIA's data sheet, dense) in nodes of eight with 400 Gb/s a device; rates of no device.
inline Chip hopper() {
  Chip device;
  const double peaks[] = {989e12, 989e12, 989e12 * 0.35, 1979e12, 1979e12, 1979e12 * 1.5};  // by Precision
  for (std::size_t i = 0; i < kPrecisionCount; ++i) device.sheet.flops_per_s[i] = peaks[i];
  device.sheet.memory_bytes_per_s = 3.35e12;
  device.sheet.cores = 132;
  device.sheet.tiles = {{256, 128, 1.0}, {128, 128, 0.93}, {128, 64, 0.80}, {64, 64, 0.60}};
  device.sheet.intra_bytes_per_s = 450e9;
  device.sheet.inter_bytes_per_s = 50e9;
  device.sheet.host_bytes_per_s = 60e9;
  device.sheet.is_hopper_or_later = true;
  device.rates = {.matmul = 0.7,
                  .tile_start = 140,
                  .memory = 0.8,
                  .launch_s = 25e-6,
                  .intra_link = 0.65,
                  .inter_link = 0.85,
                  .hop_s = 20e-6,
                  .attention = 0.45,
                  .grouped_matmul = 0.9,
                  .fp8 = 0.95};
  return device;
}

struct Case {
  TimedRun run;
  Software software;
};

/// Sixteen layers of Llama 2 7B, data parallel in one node.
inline Case plain_case() {
  Case plain;
  plain.run.model = {.layers = 16,
                     .hidden = 4096,
                     .ffn = 11008,
                     .heads = 32,
                     .kv_heads = 32,
                     .head_dim = 128,
                     .vocabulary = 32000,
                     .mla = {}};
  plain.run.data = 8;
  plain.run.global_batch = 64;
  plain.run.sequence = 4096;
  return plain;
}

struct ReferenceCase {
  const char* name;
  double seconds;
  void (*change)(Case&);
};

inline void make_moe(Case& c) {
  c.run.model.experts = 64;
  c.run.model.top_k = 6;
  c.run.model.expert_ffn = 1408;
  c.run.model.shared_ffn = 2816;
  c.run.model.moe_layers = 15;
}

inline void make_mla(Case& c) {
  c.run.model.is_mla = true;
  c.run.model.mla = {.q_lora = 1536, .kv_lora = 512, .qk_nope = 128, .qk_rope = 64, .v = 128};
}

inline void make_eager(Case& c) {
  c.software.is_eager = true;
  c.software.layer_launches = 32;
  c.software.weight_bytes = 0;
  c.software.exchange_hidden = 0;
}

inline const ReferenceCase kReferenceCases[] = {
    {"dense", 1.385634742591633, [](Case&) {}},
    {"grouped queries", 1.2335336683018565, [](Case& c) { c.run.model.kv_heads = 8; }},
    {"ungated and tied", 1.1626020821910164,
     [](Case& c) {
       c.run.model.is_gated = false;
       c.run.model.is_tied = true;
       c.software.ungated_passes = 4;
     }},
    {"tensor and sequence parallel", 0.8322851063037541,
     [](Case& c) {
       c.run.tensor = 4;
       c.run.data = 4;
       c.run.is_sequence_parallel = true;
       c.run.tensor_hidden = 0.5;
     }},
    {"tensor parallel alone", 0.35102960811593886,
     [](Case& c) {
       c.run.tensor = 8;
       c.run.model.kv_heads = 4;
     }},
    {"interleaved pipeline", 0.2512160561138099,
     [](Case& c) {
       c.run.tensor = 2;
       c.run.pipeline = 4;
       c.run.virtual_pipeline = 2;
       c.run.is_sequence_parallel = true;
     }},
    {"pipeline inside a node, sends shown", 1.6014440246970985,
     [](Case& c) {
       c.run.pipeline = 4;
       c.run.data = 2;
       c.software.send_hidden = 0;
       c.software.send_rate = 0.5;
       c.run.virtual_pipeline = 2;
     }},
    {"context parallel", 9.043570592011276,
     [](Case& c) {
       c.run.context = 4;
       c.run.data = 4;
       c.run.sequence = 32768;
       c.run.model.kv_heads = 8;
     }},
    {"context parallel MLA over nodes, short", 1.761182803039534,
     [](Case& c) {
       c.run.context = 8;
       c.run.tensor = 2;
       c.run.data = 2;
       c.run.sequence = 8192;
       make_mla(c);
     }},
    {"fp8", 0.9744384882770192,
     [](Case& c) {
       c.run.precision = Precision::fp8;
       c.run.micro_batch = 2;
     }},
    {"fp8 MoE", 1.527423351533433,
     [](Case& c) {
       c.run.precision = Precision::fp8;
       c.run.expert = 8;
       make_moe(c);
     }},
    {"eager with the fused softmax", 1.033786847233859,
     [](Case& c) {
       c.run.sequence = 2048;
       make_eager(c);
     }},
    {"eager with the plain softmax", 1.81902852478487,
     [](Case& c) {
       c.software.has_tf32_head = true;
       c.software.has_one_link = true;
       c.software.step_s = 0.005;
       c.run.data = 16;
       make_eager(c);
     }},
    {"half of the layers again", 1.5861020684630533, [](Case& c) { c.run.recomputed.layers = 0.5; }},
    {"modules of dense layers again", 1.6589740674213052,
     [](Case& c) {
       c.run.recomputed.modules = {{"core_attn"}, {"mlp"}, {"layernorm"}, {"moe_act"}};
     }},
    {"modules of MoE layers again", 2.3788051480054513,
     [](Case& c) {
       c.run.recomputed.modules = {{"moe"}, {"shared_experts"}, {"mlp"}};
       c.run.expert = 8;
       make_moe(c);
     }},
    {"up projections of MLA again", 1.3327922575257412,
     [](Case& c) {
       c.run.recomputed.modules = {{"mla_up_proj"}};
       make_mla(c);
     }},
    {"half of the products again", 1.161713744036955,
     [](Case& c) {
       c.run.recomputed.is_half_of_products = true;
       c.run.sharded = 8;
       c.run.tensor = 2;
       c.run.reduced_bytes = 2;
     }},
    {"fully sharded over nodes", 0.22748120204141078,
     [](Case& c) {
       c.run.sharded = 64;
       c.run.data = 64;
       c.run.fused_vector_share = 0.6;
     }},
    {"replicas of fully sharded", 0.46698812199380546,
     [](Case& c) {
       c.run.sharded = 8;
       c.run.data = 32;
       c.run.gathers_once = true;
       c.run.model.is_tied = true;
     }},
    {"fully sharded over context too", 2.071471160841052,
     [](Case& c) {
       c.run.sharded = 16;
       c.run.data = 4;
       c.run.context = 4;
     }},
    {"expert tensor parallel", 0.7689822856652028,
     [](Case& c) {
       c.run.tensor = 2;
       c.run.expert = 4;
       c.run.expert_tensor = 2;
       c.run.is_sequence_parallel = true;
       c.run.data = 16;
       make_moe(c);
     }},
    {"experts over nodes, a token once a node", 0.946794947781915,
     [](Case& c) {
       c.run.expert = 32;
       c.run.data = 32;
       c.run.sends_once_a_node = true;
       c.run.expert_hidden = 0.37;
       c.run.more_moe_launches = -15;
       c.run.network_share = 0.5;
       make_moe(c);
     }},
    {"MoE, MLA and multi-token prediction", 1.1310212607351777,
     [](Case& c) {
       c.run.expert = 8;
       c.run.pipeline = 2;
       c.run.is_even = true;
       c.run.model.mtp_layers = 1;
       make_moe(c);
       make_mla(c);
     }},
    {"multi-token prediction on an uneven last stage", 1.0538095735232238,
     [](Case& c) {
       c.run.pipeline = 2;
       c.run.model.mtp_layers = 2;
     }},
    {"weights broadcast", 0.3035458931955095,
     [](Case& c) {
       c.software.broadcasts_weights = true;
       c.software.exchange_hidden = 0.3;
       c.software.gradient_bytes = 2;
       c.run.optimizer_span = 8;
       c.run.data = 64;
       c.run.network_share = 0.25;
     }},
    {"packed documents", 1.2707548623772569, [](Case& c) { c.run.document = 1024; }},
    {"window", 1.3090481557815328, [](Case& c) { c.run.model.window = 1024; }},
    {"alternating window", 1.5292345928633884,
     [](Case& c) {
       c.run.model.window = 1024;
       c.run.model.alternates_window = true;
       c.run.model.is_causal = false;
     }},
    {"graph and imbalance", 2.0955367625253913,
     [](Case& c) {
       c.software.is_graph = true;
       c.software.imbalance = 1.15;
       c.run.expert = 4;
       make_moe(c);
     }},
    {"FlashAttention-2", 1.6078048564709668,
     [](Case& c) {
       c.software.is_flash_2 = true;
       c.software.activation_factor = 1.6;
     }},
    {"bound by its launches", 0.34181536357375164,
     [](Case& c) {
       c.run.sequence = 128;
       c.software.layer_launches = 40;
       c.run.model.hidden = 1024;
       c.run.model.ffn = 2816;
       c.run.model.heads = 16;
       c.run.model.kv_heads = 16;
       c.run.model.head_dim = 64;
     }},
    {"device and host that meet in every pass", 2.0760846428768085,
     [](Case& c) {
       c.software.pass_corner = 2.75;
       c.run.sequence = 1024;
       c.run.tensor = 4;
       c.run.data = 2;
       c.run.recomputed.layers = 1;
       make_eager(c);
     }},
    {"tokens permuted by plain kernels", 2.1728553956272236,
     [](Case& c) {
       c.software.permutes_plainly = true;
       c.run.expert = 8;
       make_moe(c);
     }},
    {"tokens permuted by plain kernels for one expert", 0.673710579834835,
     [](Case& c) {
       c.software.permutes_plainly = true;
       c.run.expert = 64;
       c.run.data = 64;
       make_moe(c);
     }},
};

}  // namespace tidemark::step_time
