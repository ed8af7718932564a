"""Question: at the same peak, is a step by a plan faster than what PyTorch has for less memory, eager against eager?

Workloads: language models that take 0.3 to 2 s a step on one core (Llama and GPT-2 of transformers, PyTorch's encoder, the
worked example's mixture of experts), AdamW, the same batch every step. Rivals, each by itself: torch.utils.checkpoint of every
layer and of every other one (use_reentrant=False); activation_memory_budget of torch.compile's partitioner, with the back end
aot_eager_decomp_partition, which runs eager kernels; save_on_cpu, which on a CPU finds its tensors there already and keeps all.

Method: the rival trains by itself and its peak is measured: the largest sum of live blocks of a step, workspaces of kernels
included, on Tidemark's CPU allocator, which serves all ways. Tidemark is planned for that peak and measured in the same way.
Then the three, everything kept among them, train in turn: each round every way takes one step that does not count, so that it
finds its memory and caches, and some that do. Time is processor time of the process with all of its threads, as the machine
may be shared; what is compared is the median over the rounds of the ratio to the way beside it.

Goal: Tidemark faster than the rival in every row whose peak is below everything kept, and within 1 % of everything kept
otherwise. Exit 1 where a peak is above the rival's, or bits are others (but for compiled rivals, whose kernels are others).

Usage: pytorch_rivals.py [--models llama,gpt2,encoder,experts] [--rivals NAME,...] [--rounds N] [--steps N]
"""

import argparse
import contextlib
import functools
import gc
import operator
import pathlib
import statistics
import sys
import time

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "integrations" / "pytorch" / "examples" / "mla_moe"))

import tidemark  # noqa: E402
from tidemark import allocator  # noqa: E402

VOCABULARY, BATCH, LENGTH = 2048, 4, 256
WIDTH, LAYERS, HEADS = 256, 6, 4


class Language(nn.Module):
    """Tokens to the loss of what comes next. `layers`: what a rival checkpoints."""

    def __init__(self, model, layers, loss_of):
        super().__init__()
        self.model = model
        self.layers = list(layers)  # hidden from the module, which has them
        self._loss_of = loss_of

    def forward(self, tokens):
        return self._loss_of(self.model(tokens), tokens)


def next_token_loss(out, tokens):
    logits = getattr(out, "logits", out)
    return nn.functional.cross_entropy(logits[:, :-1].reshape(-1, VOCABULARY), tokens[:, 1:].reshape(-1))


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=688,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS // 2,
        max_position_embeddings=LENGTH,
        use_cache=False,
    )
    model = LlamaForCausalLM(config)
    return Language(model, model.model.layers, next_token_loss)


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCABULARY, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, n_positions=LENGTH, use_cache=False
    )
    model = GPT2LMHeadModel(config)
    return Language(model, model.transformer.h, next_token_loss)


def encoder():
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, batch_first=True, norm_first=True)
    stack = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
    model = nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), stack, nn.Linear(WIDTH, VOCABULARY))
    return Language(model, stack.layers, next_token_loss)


def experts():
    import model as example

    model = example.Decoder(_experts_config(example))
    return Language(model, [*model.layers, model.second_layer], example.loss_of)


def _experts_config(example):
    return example.Config(
        vocabulary=VOCABULARY, hidden=WIDTH, layers=4, heads=8, kv_rank=96, query_rank=128, dense_hidden=512
    )


def capture_on_fakes(way):
    """How many rows an expert gets varies from step to step: planned for within bounds."""
    import model as example

    bounds = example.routed_rows(_experts_config(example), BATCH, LENGTH)
    bounds = {f"model.{pattern}": bound for pattern, bound in bounds.items()}
    return tidemark.capture(way.model, (way.tokens,), optimizer=way.optimizer, bounds=bounds, measured=True)


def capture_recorded(way):
    return tidemark.capture(way.model, (way.tokens,), optimizer=way.optimizer, recorded=True)


MODELS = {
    "llama": (llama, capture_recorded),
    "gpt2": (gpt2, capture_recorded),
    "encoder": (encoder, capture_recorded),
    "experts": (experts, capture_on_fakes),
}


# Rivals: what is done to a model; returns what makes the context of its forward


def keep_all(_model):
    return contextlib.nullcontext


def checkpointed(every, model):
    for layer in model.layers[::every]:
        layer.forward = functools.partial(checkpoint, layer.forward, use_reentrant=False)
    return contextlib.nullcontext


def compiled(share, model):
    torch._dynamo.reset()
    torch._functorch.config.activation_memory_budget = share  # read when it compiles, at the first step
    model.forward = torch.compile(model.forward, backend="aot_eager_decomp_partition")
    return contextlib.nullcontext


def on_cpu(_model):
    return torch.autograd.graph.save_on_cpu


RIVALS = {
    "checkpoint": functools.partial(checkpointed, 1),
    "checkpoint_every_other": functools.partial(checkpointed, 2),
    "save_on_cpu": on_cpu,
    "budget_1": functools.partial(compiled, 1.0),
    "budget_0.5": functools.partial(compiled, 0.5),
    "budget_0.2": functools.partial(compiled, 0.2),
}


class Way:
    """A model on its way through training; those of others may take steps between."""

    def __init__(self, build, change, session=contextlib.nullcontext):
        gc.collect()
        others = tidemark.memory_allocated("cpu")
        torch.manual_seed(0)
        self.model = build()
        self.model.train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH))
        self.context = change(self.model)
        self.session = session
        self.losses, self.seconds = [], []
        self.peak_bytes = 0
        with self.session(self.model):
            for _ in range(3):  # the first makes the optimizer's state, the second compiles anew what it must
                tidemark.reset_peak_memory_stats("cpu")
                self._step()
                self.peak_bytes = tidemark.max_memory_allocated("cpu") - others

    def _step(self):
        torch.manual_seed(len(self.losses))  # all ways draw the same numbers
        with self.context():
            loss = self.model(self.tokens)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.losses.append(loss.item())

    def round(self, steps):
        with self.session(self.model):
            self._step()
            begin = time.process_time()
            for _ in range(steps):
                self._step()
            self.seconds.append((time.process_time() - begin) / steps)


def plan_for(graph, peak_bytes):
    """Whose blocks sum up to so much at most: the allocator's own share comes on top. Where none is found, the one with the
    least that is known to do."""
    try:
        plan = tidemark.plan(graph, tidemark.planning.with_share(peak_bytes))
    except tidemark.InfeasibleError as error:
        plan = tidemark.plan(graph, error.smallest_bytes)
    plan.budget_bytes = 0  # as the others: measured, not limited
    return plan


def within_peak(build, graph, peak_bytes):
    """A plan and its way, measured within so much where that is feasible: what comes beside the prediction, as numbers that
    the loop makes do, is left room for at a second try."""
    aim = peak_bytes
    for _ in range(3):
        plan = plan_for(graph, aim)
        ours = Way(build, keep_all, lambda model, plan=plan: tidemark.session(plan, model))
        if ours.peak_bytes <= peak_bytes:
            break
        print(f"planned {plan.peak_bytes} B, measured {ours.peak_bytes} B for {peak_bytes} B", file=sys.stderr, flush=True)
        aim -= ours.peak_bytes - peak_bytes
    return plan, ours


def beside(way, other):
    return 100 * (statistics.median(map(operator.truediv, way.seconds, other.seconds)) - 1)


def mib(bytes_):
    return f"{bytes_ / 2**20:.1f}"


HEAD = (
    "| model | rival | step ms, peak MiB with everything kept | rival's peak | Tidemark's | run again, planned % "
    "| rival, beside everything kept | Tidemark, beside everything kept | Tidemark, beside the rival | rule |\n"
    "|---|---|--:|--:|--:|--:|--:|--:|--:|---|"
)


def begins_with(losses, others):
    return losses[: len(others)] == others


def broken(kept, rival, ours, is_compiled):
    out = []
    if ours.peak_bytes > rival.peak_bytes:
        out.append("peak above the rival's")
    if not begins_with(kept.losses, ours.losses):
        out.append("other bits than with everything kept")
    if not is_compiled and not begins_with(kept.losses, rival.losses):
        out.append("the rival has other bits")
    return out


def show_row(name, rival_name, kept, rival, ours, plan):
    rule = broken(kept, rival, ours, rival_name.startswith("budget"))
    again = len(plan.schedule) - len(plan.graph.ops)
    print(
        f"| {name} | {rival_name} | {1e3 * statistics.median(kept.seconds):.0f}, {mib(kept.peak_bytes)} | {mib(rival.peak_bytes)} "
        f"| {mib(ours.peak_bytes)} | {again}, {plan.added_cost_percent:.1f} | {beside(rival, kept):+.1f} % "
        f"| {beside(ours, kept):+.1f} % | {beside(ours, rival):+.1f} % | {'; '.join(rule) or 'holds'} |",
        flush=True,
    )
    return not rule


def bench(name, rivals, rounds, steps):
    """Prints the rows of one model; returns whether all hold."""
    build, capture = MODELS[name]
    graph = capture(Way(build, keep_all))
    kept = Way(build, keep_all)
    holds = True
    for rival_name in rivals:
        rival = Way(build, RIVALS[rival_name])
        plan, ours = within_peak(build, graph, min(rival.peak_bytes, kept.peak_bytes))
        kept.seconds.clear()
        for _ in range(rounds):
            for way in (kept, rival, ours):
                way.round(steps)
        holds = show_row(name, rival_name, kept, rival, ours, plan) and holds
    return holds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--rivals", default=",".join(RIVALS))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=2, help="of a way in a round, beside the one that does not count")
    arguments = parser.parse_args()
    for what, known, given in (("model", MODELS, arguments.models), ("rival", RIVALS, arguments.rivals)):
        for name in given.split(","):
            if name not in known:
                parser.error(f"{name!r} is no {what}; right would be one of {', '.join(known)}")
    torch.set_num_threads(1)
    allocator.install()
    print(HEAD, flush=True)
    held = [
        bench(name, arguments.rivals.split(","), arguments.rounds, arguments.steps) for name in arguments.models.split(",")
    ]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
