"""Question: at the same peak, is a step by a plan faster than what PyTorch has for less memory, eager against eager?

Workloads: language models that take 0.3 to 2 s a step on one core (Llama and GPT-2 of transformers, PyTorch's encoder, the
worked example's mixture of experts), AdamW, the same batch every step. Rivals, each by itself: torch.utils.checkpoint of every
layer and of every other one (use_reentrant=False), selective with matrix products kept; activation_memory_budget of
torch.compile's partitioner, with the back end aot_eager_decomp_partition, which runs eager kernels; save_on_cpu, which on a CPU
finds its tensors there already and keeps all; torchtune's OffloadActivations; DeepSpeed's DeepCompile; FSDP2 with its
CPUOffloadPolicy, one process (memory_rivals.py). What is not installed has a row that says so.

Method: the rival trains by itself and its peak is measured: the largest sum of live blocks of a step, workspaces of kernels
included, on Tidemark's CPU allocator, which serves all ways. Tidemark is planned for that peak and measured in the same way.
Then the three, everything kept among them, train in turn: each round every way takes one step that does not count, so that it
finds its memory and caches, and some that do. On a CPU time is processor time of the process with all of its threads, as the machine
may be shared, on a GPU what passes until it is done; what is compared is the median over the rounds of the ratio to the way
beside it.

`--bf16` has forward and loss within torch.autocast, as most train on a GPU: kernels are some times faster there than in
fp32, and copies to host memory are not.

On a GPU the batch is as large as takes `--share` of its memory with everything kept. `--tiny` shows on a CPU, in seconds, that
the table can be made: its times say nothing. Rows that `--seconds` leaves no time for are named as cut.

Goal: Tidemark faster than the rival in every row whose peak is below everything kept, and within 1 % of everything kept
otherwise. Exit 1 where a peak is above the rival's, or bits are others (but for rivals whose kernels are others).

Usage: pytorch_rivals.py [--models llama,gpt2,encoder,experts] [--rivals NAME,...] [--rounds N] [--steps N]
                         [--device cpu|cuda] [--bf16] [--share S] [--memory SIZE] [--tiny] [--seconds N]
"""

import argparse
import contextlib
import dataclasses
import gc
import operator
import pathlib
import statistics
import sys
import time

import torch
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "integrations" / "pytorch" / "examples" / "mla_moe"))

import tidemark  # noqa: E402
from bench_device import BenchDevice, rows_that_fill  # noqa: E402
from memory_rivals import RIVALS, keep_all  # noqa: E402
from tidemark.sizes import parse_bytes  # noqa: E402


@dataclasses.dataclass(frozen=True)
class Size:
    vocabulary: int = 2048
    rows: int = 4  # of the batch
    length: int = 256
    width: int = 256
    layers: int = 6
    heads: int = 4
    is_bf16: bool = False


TINY = Size(vocabulary=128, rows=2, length=32, width=32, layers=2, heads=2)
OF_GPU = Size(vocabulary=32768, rows=1, length=1024, width=1536, layers=12, heads=12)


class Language(nn.Module):
    """Tokens to the loss of what comes next. `layers`: what a rival checkpoints. `is_bf16`: within autocast."""

    def __init__(self, model, layers, loss_of, is_bf16):
        super().__init__()
        self.model = model
        self.layers = list(layers)  # hidden from the module, which has them
        self._loss_of, self._is_bf16 = loss_of, is_bf16

    def forward(self, tokens):
        with torch.autocast(tokens.device.type, torch.bfloat16, enabled=self._is_bf16):
            return self._loss_of(self.model(tokens), tokens)


def next_token_loss(out, tokens):
    logits = getattr(out, "logits", out)
    return nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def llama(size):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=size.vocabulary,
        hidden_size=size.width,
        intermediate_size=size.width * 43 // 16,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.heads // 2,
        max_position_embeddings=size.length,
        use_cache=False,
    )
    model = LlamaForCausalLM(config)
    return Language(model, model.model.layers, next_token_loss, size.is_bf16)


def gpt2(size):
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=size.vocabulary,
        n_embd=size.width,
        n_layer=size.layers,
        n_head=size.heads,
        n_positions=size.length,
        use_cache=False,
    )
    model = GPT2LMHeadModel(config)
    return Language(model, model.transformer.h, next_token_loss, size.is_bf16)


def encoder(size):
    layer = nn.TransformerEncoderLayer(size.width, size.heads, 4 * size.width, batch_first=True, norm_first=True)
    stack = nn.TransformerEncoder(layer, size.layers, enable_nested_tensor=False)
    model = nn.Sequential(nn.Embedding(size.vocabulary, size.width), stack, nn.Linear(size.width, size.vocabulary))
    return Language(model, stack.layers, next_token_loss, size.is_bf16)


def experts(size):
    import model as example

    model = example.Decoder(_experts_config(example, size))
    return Language(model, [*model.layers, model.second_layer], example.loss_of, size.is_bf16)


def _experts_config(example, size):
    return example.Config(
        vocabulary=size.vocabulary,
        hidden=size.width,
        layers=size.layers * 2 // 3,
        heads=size.heads * 2,
        kv_rank=size.width * 3 // 8,
        query_rank=size.width // 2,
        dense_hidden=size.width * 2,
    )


def capture_on_fakes(way):
    """How many rows an expert gets varies from step to step: planned for within bounds."""
    import model as example

    bounds = example.routed_rows(_experts_config(example, way.size), way.size.rows, way.size.length)
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


class Way:
    """A model on its way through training; those of others may take steps between."""

    def __init__(self, build, size, device, change=keep_all, session=contextlib.nullcontext):
        gc.collect()
        device.empty_cache()
        others = device.allocated_bytes()
        self.size, self.device, self.session = size, device, session
        torch.manual_seed(0)
        self.model = self.call = build(size)
        self.model.train()
        self.tokens = torch.randint(0, size.vocabulary, (size.rows, size.length))
        self.backward = torch.Tensor.backward
        self.optimizer = None
        self.context = change(self)
        if self.optimizer is None:
            self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.losses, self.seconds = [], []
        self.peak_bytes = 0
        with self.session(self.model):
            for _ in range(3):  # the first makes the optimizer's state, the second compiles anew what it must
                device.reset_peak()
                self.step()
                self.peak_bytes = device.peak_bytes() - others

    def step(self):
        torch.manual_seed(len(self.losses))  # all ways draw the same numbers
        with self.context():
            loss = self.call(self.tokens)
        self.backward(loss)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.losses.append(loss.item())

    def round(self, steps):
        with self.session(self.model):
            self.step()
            begin = self.device.now()
            for _ in range(steps):
                self.step()
            self.seconds.append((self.device.now() - begin) / steps)


def plan_for(graph, peak_bytes):
    """Whose blocks sum up to so much at most: the allocator's own share comes on top. Where none is found, the one with the
    least that is known to do."""
    try:
        plan = tidemark.plan(graph, tidemark.planning.with_share(peak_bytes))
    except tidemark.InfeasibleError as error:
        plan = tidemark.plan(graph, error.smallest_bytes)
    plan.budget_bytes = 0  # as the others: measured, not limited
    return plan


def within_peak(make, graph, peak_bytes):
    """A plan and its way, which `make(session=...)` makes, measured within so much where that is feasible: what comes beside the prediction, as numbers that
    the loop makes do, is left room for at a second try."""
    aim = peak_bytes
    for _ in range(3):
        plan = plan_for(graph, aim)
        ours = make(session=lambda model, plan=plan: tidemark.session(plan, model))
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
    "| rival, ms and beside everything kept | Tidemark, ms and beside everything kept | Tidemark, beside the rival "
    "| losses | rule |\n|---|---|--:|--:|--:|--:|--:|--:|--:|---|---|"
)


def begins_with(losses, others):
    return losses[: len(others)] == others


def broken(kept, rival, ours, same_bits):
    out = []
    if ours.peak_bytes > rival.peak_bytes:
        out.append("peak above the rival's")
    if not begins_with(kept.losses, ours.losses):
        out.append("other bits than with everything kept")
    if same_bits and not begins_with(kept.losses, rival.losses):
        out.append("the rival has other bits")
    return out


def milliseconds(way):
    return f"{1e3 * statistics.median(way.seconds):.0f}"


def show_row(name, rival_name, kept, rival, ours, plan):
    rule = broken(kept, rival, ours, RIVALS[rival_name].same_bits)
    again = len(plan.schedule) - len(plan.graph.ops)
    alike = "equal" if begins_with(kept.losses, rival.losses) else "the rival's differ"
    print(
        f"| {name} | {rival_name} | {milliseconds(kept)}, {mib(kept.peak_bytes)} | {mib(rival.peak_bytes)} "
        f"| {mib(ours.peak_bytes)} | {again}, {plan.added_cost_percent:.1f} | {milliseconds(rival)}, {beside(rival, kept):+.1f} % "
        f"| {milliseconds(ours)}, {beside(ours, kept):+.1f} % | {beside(ours, rival):+.1f} % | {alike} | {'; '.join(rule) or 'holds'} |",
        flush=True,
    )
    return not rule


def show_left_out(name, rival_name, why):
    print(f"| {name} | {rival_name} | {why} |", flush=True)


class Maker:
    """Makes the ways of one model on one device."""

    def __init__(self, name, size, device):
        self.build, self.capture = MODELS[name]
        self.size, self.device = size, device

    def __call__(self, **how):
        return Way(self.build, self.size, self.device, **how)

    def fill(self, memory_bytes):
        """From here on batches are as large as peak at so much with everything kept."""
        peaks = {}
        for rows in (1, 2):
            self.size = dataclasses.replace(self.size, rows=rows)
            peaks[rows] = self().peak_bytes
        self.size = dataclasses.replace(self.size, rows=rows_that_fill(memory_bytes, peaks))


def rival_of(make, rival):
    """The way, or why there is none: what a rival cannot do is no fault of the table."""
    try:
        return make(change=rival.change), ""
    except Exception as error:  # noqa: BLE001  whatever it is, it is the rival's
        return None, f"failed: {type(error).__name__}: {' '.join(str(error).split())[:120]}"


def bench(name, make, rivals, rounds, steps, is_over):
    """Prints the rows of one model; returns whether all hold."""
    graph = make.capture(make())
    kept = make()
    holds = True
    for rival_name in rivals:
        why = "cut: no time left" if is_over() else RIVALS[rival_name].missing(make.device)
        rival = None
        if not why:
            rival, why = rival_of(make, RIVALS[rival_name])
        if rival is None:
            show_left_out(name, rival_name, why)
            continue
        plan, ours = within_peak(make, graph, min(rival.peak_bytes, kept.peak_bytes))
        kept.seconds.clear()
        for _ in range(rounds):
            for way in (kept, rival, ours):
                way.round(steps)
        holds = show_row(name, rival_name, kept, rival, ours, plan) and holds
    return holds


def checked(parser, arguments):
    for what, known, given in (("model", MODELS, arguments.models), ("rival", RIVALS, arguments.rivals)):
        for name in given.split(","):
            if name not in known:
                parser.error(f"{name!r} is no {what}; right would be one of {', '.join(known)}")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.error("there is no GPU; right would be --device cpu, with --tiny to see that the table can be made")
    return arguments


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--rivals", default=",".join(RIVALS))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=2, help="of a way in a round, beside the one that does not count")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--bf16", action="store_true", help="forward and loss within torch.autocast")
    parser.add_argument("--share", type=float, default=0.6, help="of the memory that a batch takes with everything kept")
    parser.add_argument("--memory", type=parse_bytes, help="what the share is of, as 1GiB; default: what the GPU has free")
    parser.add_argument("--tiny", action="store_true", help="a dry run")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no row begins later than that")
    arguments = checked(parser, parser.parse_args())
    begin = time.monotonic()
    device = BenchDevice(arguments.device)
    memory_bytes = arguments.memory or device.memory_bytes()
    size = TINY if arguments.tiny else OF_GPU if device.is_gpu else Size()
    size = dataclasses.replace(size, is_bf16=arguments.bf16)
    held = []
    for i, name in enumerate(arguments.models.split(",")):
        make = Maker(name, size, device)
        if memory_bytes is not None:
            make.fill(int(arguments.share * memory_bytes))
        if i == 0:
            print(f"{device}\n\n{HEAD}", flush=True)
        if memory_bytes is not None:
            precision = "bf16" if arguments.bf16 else "fp32"
            tokens = f"{make.size.rows} x {make.size.length} tokens"
            print(f"| {name} | {precision}, {tokens}, to fill {arguments.share:.0%} |", flush=True)
        rivals = arguments.rivals.split(",")
        held.append(bench(name, make, rivals, arguments.rounds, arguments.steps, lambda: time.monotonic() - begin > arguments.seconds))
    print(f"\n{device}")
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
