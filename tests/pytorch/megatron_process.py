"""One process of two that train Megatron-Core's GPT over gloo, by its own schedule: without Tidemark, and by tidemark_megatron
within shares of what the step needs. Prints a line of JSON for each case:

    python megatron_process.py RANK STORE CASE...
"""

import functools
import gc
import hashlib
import json
import pathlib
import sys

import conftest  # noqa: F401  one thread of PyTorch, and Tidemark's allocator
import megatron_modules
import megatron_on_cpu
import tidemark.planning
import torch
import torch.distributed as dist
from tidemark.graph import HostLink

megatron_on_cpu.install()

import megatron_training  # noqa: E402

megatron_modules.stand_in(megatron_training)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integrations" / "megatron"))

import tidemark_megatron  # noqa: E402
from megatron.core import parallel_state, tensor_parallel  # noqa: E402
from megatron.core.distributed import (  # noqa: E402
    DistributedDataParallel,
    DistributedDataParallelConfig,
    finalize_model_grads,
)
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec  # noqa: E402
from megatron.core.models.gpt.gpt_model import GPTModel  # noqa: E402
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer  # noqa: E402
from megatron.core.transformer.transformer_block import TransformerBlockSubmodules  # noqa: E402
from megatron.core.transformer.transformer_config import TransformerConfig  # noqa: E402

WORLD, STEPS = 2, 4
LINK = HostLink(1e12, 1e12, 0)
TOKENS, BATCH, VOCABULARY = 128, 4, 64
PIPELINE = {"pipeline_model_parallel_size": 2, "pipeline_dtype": torch.float32, "deallocate_pipeline_outputs": True}
TENSORS = {"tensor_model_parallel_size": 2, "num_attention_heads": 8}
EXPERTS = {"num_moe_experts": 4, "moe_token_dispatcher_type": "allgather", "moe_aux_loss_coeff": 1e-2, "add_bias_linear": False}
SHAPE = {"num_layers": 4, "hidden_size": 32, "num_attention_heads": 4, "ffn_hidden_size": 64}
CASES = {  # what differs from SHAPE, and the budgets
    "pipeline": (PIPELINE | {"num_layers": 6}, ("80%", "60%")),
    "virtual_pipeline": (PIPELINE | {"virtual_pipeline_model_parallel_size": 2}, ("60%",)),
    "tensor_parallel": (TENSORS, ("60%",)),
    "sequence_parallel": (TENSORS | {"sequence_parallel": True}, ("70%",)),
    "experts": (PIPELINE | EXPERTS, ("60%",)),
    "expert_parallel": ({"expert_model_parallel_size": 2, "num_layers": 2} | EXPERTS, ("80%",)),
}


class Model:
    """Of one process, with its optimizer, as Megatron-LM's setup_model_and_optimizer() makes them."""

    def __init__(self, case):
        self.config = TransformerConfig(use_cpu_initialization=True, **SHAPE | CASES[case][0])
        self.config.finalize_model_grads_func = finalize_model_grads
        self.config.max_sequence_length, self.config.micro_batch_size = TOKENS, BATCH
        torch.manual_seed(1)
        tensor_parallel.model_parallel_cuda_manual_seed(1, force_reset_rng=True)
        count = self.config.virtual_pipeline_model_parallel_size
        chunks = [self._chunk(number) for number in (range(count) if count else [None])]
        self.chunks = [DistributedDataParallel(self.config, DistributedDataParallelConfig(), c) for c in chunks]
        self.optimizer = get_megatron_optimizer(OptimizerConfig(optimizer="adam", lr=1e-2, clip_grad=0.0), self.chunks)

    def _chunk(self, number):
        of_stage = {"ignore_virtual": False, "vp_stage": number}
        return GPTModel(
            self.config,
            layers_of(self.config),
            VOCABULARY,
            TOKENS,
            pre_process=parallel_state.is_pipeline_first_stage(**of_stage),
            post_process=parallel_state.is_pipeline_last_stage(**of_stage),
            position_embedding_type="rope",
            share_embeddings_and_output_weights=False,
            vp_stage=number,
        )

    def batches(self, step):
        return [micro_batches(step) for _ in self.chunks]


class Norm(torch.nn.LayerNorm):
    """Megatron-Core's own one of PyTorch refuses sequence parallelism, as it does not mark what is to be added up."""

    def __init__(self, config, hidden_size, eps=1e-5):
        super().__init__(hidden_size, eps)
        for parameter in self.parameters():
            parameter.sequence_parallel = config.sequence_parallel


def layers_of(config):
    layer = get_gpt_layer_local_spec(num_experts=config.num_moe_experts)
    if not config.sequence_parallel:
        return layer
    layer.submodules.input_layernorm = layer.submodules.pre_mlp_layernorm = Norm
    return TransformerBlockSubmodules([layer] * config.num_layers, Norm)


def micro_batches(step):
    generator = torch.Generator().manual_seed(step)
    for _ in range(megatron_training.MICRO_BATCHES):
        tokens = torch.randint(VOCABULARY, (BATCH, TOKENS + 1), generator=generator)
        yield tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def forward_step(data_iterator, model):
    """As in pretrain_gpt.py."""
    tokens, labels = next(data_iterator)
    positions = torch.arange(TOKENS).expand(BATCH, TOKENS)
    mask = torch.ones(1, 1, TOKENS, TOKENS, dtype=torch.bool).triu(1)
    return model(tokens, positions, mask, labels=labels), loss_of


def loss_of(losses):
    loss = losses.float().mean()
    return loss, {"lm loss": loss.detach().clone()}


def trained(case, budget=None):
    """Losses of all steps, and a digest of gradients and parameters behind each; the session."""
    gc.collect()
    model = Model(case)
    seen = []

    def see(losses):
        digest = hashlib.sha1()
        for parameter in (p for chunk in model.chunks for p in chunk.parameters()):
            for tensor in (parameter.main_grad, parameter):
                digest.update(memoryview(tensor.detach().contiguous().numpy()).cast("B"))
        seen.append([*(loss["lm loss"].item() for loss in losses), digest.hexdigest()])

    def make(chunks):
        return tidemark_megatron.Training(chunks, budget, host_link=LINK if "expert" in case else None)

    with tidemark_megatron.applied(make) as wrappers:
        steps = (model.batches(step) for step in range(STEPS))
        megatron_training.train(forward_step, model.chunks, model.optimizer, None, steps, None, model.config, see)
    return seen, wrappers.training.session


def compared(case):
    sizes, budgets = CASES[case]
    parallel_state.initialize_model_parallel(
        **{name: sizes[name] for name in sizes if name.endswith("model_parallel_size")}, create_gloo_process_groups=True
    )
    plain, _ = trained(case)
    said = []
    for budget in budgets:
        seen, session = trained(case, budget)
        report, done, graph = session.report(), session.counters, session.plan.graph
        said.append(
            {
                "asked": budget,
                "trained_alike": seen == plain,
                "acted": done.recomputed + done.swapped,
                "off_plan": done.off_plan,
                "micro_batches": graph.micro_batches,
                "budget": session.plan.budget_bytes,
                "predicted": report.predicted_peak_bytes,
                "measured": report.measured_peak_bytes,
                "reserved": report.measured_reserved_bytes,
                "keep_all": graph.keep_all_peak_bytes(),
            }
        )
    parallel_state.destroy_model_parallel()
    return said


def main():
    tidemark.planning.plan_within = functools.partial(tidemark.planning.plan_within, effort_percent=1)  # any that fits
    rank, store, cases = int(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=WORLD)
    for case in cases:
        print(json.dumps({case: compared(case)}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
