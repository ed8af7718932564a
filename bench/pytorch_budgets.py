"""Do budgets hold? Models as people write them, each trained at budgets from the smallest feasible one to everything kept.

    .cache/pytorch-*/bin/python bench/pytorch_budgets.py [MODEL ...] [--budgets N] [--steps N] [--modelled] [--swap]
        [--unlimited] [--log FILE]

Needs torchvision, transformers and megatron-core beside the package; a model whose package is missing is skipped with a
line that says so. Every run is a process of its own on Tidemark's CPU allocator: one without a session, then one for
each budget, with the budget as the limit. Bytes are exact, times are rough where the machine is shared.

A row holds where nothing ran out of memory, what was taken from the machine is at most the budget, both that and the
largest sum of blocks are within 3 % of predicted (blocks may be fewer where bounds have more planned for), every request
of a steady step was served where the plan has it but for one in a hundred, nothing departed from the plan, and losses and trained parameters are
those without a session, bit for bit. Exit 1 where a row does not.

--modelled captures with modelled times, where workspaces count as none: shows what measuring is needed for.
--swap gives the capture a link to host memory.
--unlimited sets no limit: what a plan needs in blocks is seen apart from what the allocator loses between them.
"""

import argparse
import contextlib
import dataclasses
import hashlib
import importlib.util
import json
import pathlib
import pickle
import subprocess
import sys
import tempfile
import time
import warnings

import torch
from torch import nn

import tidemark
from tidemark import allocator

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "integrations" / "pytorch" / "examples" / "mla_moe"))

TOLERANCE = 0.03


@dataclasses.dataclass
class Subject:
    """What is trained. `loss_fn` takes the model's output."""

    model: nn.Module
    inputs: object  # a tuple, or a dict
    loss_fn: object
    optimizer: torch.optim.Optimizer
    bounds: dict | None = None

    def loss(self):
        output = self.model(**self.inputs) if isinstance(self.inputs, dict) else self.model(*self.inputs)
        return self.loss_fn(output)


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-4)


def resnet50():
    from torchvision.models import resnet50 as build

    model = build()
    targets = torch.randint(0, 1000, (8,))
    stepper = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    return Subject(
        model, (torch.randn(8, 3, 160, 160),), lambda out: nn.functional.cross_entropy(out, targets), stepper
    )


def vit():
    from torchvision.models import VisionTransformer

    model = VisionTransformer(
        image_size=224, patch_size=16, num_layers=12, num_heads=6, hidden_dim=384, mlp_dim=1536, dropout=0.1
    )
    targets = torch.randint(0, 1000, (6,))
    loss_fn = lambda out: nn.functional.cross_entropy(out, targets)  # noqa: E731
    return Subject(model, (torch.randn(6, 3, 224, 224),), loss_fn, adamw(model))


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(n_layer=6, n_embd=384, n_head=6, n_positions=256))
    model.train()
    tokens = torch.randint(0, model.config.vocab_size, (4, 192))
    return Subject(model, {"input_ids": tokens, "labels": tokens}, lambda out: out.loss, adamw(model))


def llama(use_cache):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=16384,
        hidden_size=512,
        intermediate_size=1376,
        num_hidden_layers=6,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=512,
    )
    model = LlamaForCausalLM(config)
    model.train()
    tokens = torch.randint(0, config.vocab_size, (4, 192))
    inputs = {"input_ids": tokens, "labels": tokens, "use_cache": use_cache}
    return Subject(model, inputs, lambda out: out.loss, adamw(model))


def mla_moe():
    import model as example

    config = example.Config(
        vocabulary=8192,
        hidden=256,
        layers=6,
        heads=8,
        query_rank=128,
        kv_rank=96,
        experts=8,
        expert_hidden=256,
        dense_hidden=768,
    )
    tokens = torch.randint(0, config.vocabulary, (4, 256))
    model = example.Decoder(config)
    bounds = example.routed_rows(config, 4, 256)
    return Subject(model, (tokens,), lambda out: example.loss_of(out, tokens), adamw(model), bounds)


def megatron_gpt():
    from megatron.core import parallel_state, tensor_parallel
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.transformer import TransformerConfig

    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    parallel_state.initialize_model_parallel()
    # Where it asks for CUDA on any machine: the states of its generators, and the device of a buffer that it keeps.
    torch.cuda.current_device = lambda: "cpu"
    tracker = tensor_parallel.random.get_cuda_rng_tracker()
    tracker.fork = lambda *_args, **_kwargs: contextlib.nullcontext()
    config = TransformerConfig(
        num_layers=6,
        hidden_size=512,
        num_attention_heads=8,
        use_cpu_initialization=True,
        attention_softmax_in_fp32=True,
        masked_softmax_fusion=False,
        bias_dropout_fusion=False,
        gradient_accumulation_fusion=False,
    )
    batch, length, vocabulary = 4, 192, 16384
    model = GPTModel(config, get_gpt_layer_local_spec(), vocab_size=vocabulary, max_sequence_length=length)
    tokens = torch.randint(0, vocabulary, (batch, length))
    inputs = {
        "input_ids": tokens,
        "position_ids": torch.arange(length).expand(batch, -1).contiguous(),
        "attention_mask": torch.ones(1, 1, length, length, dtype=torch.bool).triu(1),
        "labels": tokens.roll(-1, 1).contiguous(),
    }
    return Subject(model, inputs, lambda losses: losses.mean(), adamw(model))


MODELS = {  # what to build, and the package that must be there
    "resnet50": (resnet50, "torchvision"),
    "vit": (vit, "torchvision"),
    "gpt2": (gpt2, "transformers"),
    "llama": (lambda: llama(False), "transformers"),
    "llama_cache": (lambda: llama(True), "transformers"),
    "mla_moe": (mla_moe, None),
    "megatron_gpt": (megatron_gpt, "megatron"),
}


def built(name):
    torch.manual_seed(0)
    return MODELS[name][0]()


def train(subject, steps, context, served=lambda: (0, 0)):
    """Losses, a digest of the trained parameters, the seconds of every step, and how many requests of the last were
    served where planned, and how many elsewhere: `served()` says it of all so far."""
    torch.manual_seed(1)
    losses, seconds, counts = [], [], [(0, 0)]
    with context:
        for _ in range(steps):
            begin = time.perf_counter()
            loss = subject.loss()
            loss.backward()
            subject.optimizer.step()
            subject.optimizer.zero_grad()
            losses.append(loss.item().hex())
            del loss
            seconds.append(time.perf_counter() - begin)
            counts.append(served())
    planned, elsewhere = (now - before for now, before in zip(counts[-1], counts[-2], strict=True))
    digest = hashlib.sha256()
    for parameter in subject.model.parameters():
        digest.update(memoryview(parameter.detach().contiguous().numpy()).cast("B"))
    return {
        "losses": losses,
        "parameters": digest.hexdigest(),
        "seconds": min(seconds[1:], default=seconds[0]),
        "requests": planned + elsewhere,
        "elsewhere": elsewhere,
    }


# The parts that run in processes of their own


def capture(name, subject, measured, swap=False):
    return tidemark.capture(
        subject.model,
        subject.inputs,
        subject.loss_fn,
        optimizer=subject.optimizer,
        bounds=subject.bounds,
        measured=measured,
        host_link=tidemark.HostLink() if swap else None,
        holds_output=False,  # loss() has let go of it
        name=name,
    )


def run_capture(name, path, measured, swap):
    subject = built(name)
    begin = time.perf_counter()
    graph = capture(name, subject, measured, swap)
    seconds = time.perf_counter() - begin
    path.write_bytes(pickle.dumps(graph))
    everything = graph.keep_all_peak_bytes()
    try:
        tidemark.plan(graph, everything // 8)
        smallest = everything // 8
    except tidemark.InfeasibleError as refusal:
        smallest = refusal.smallest_bytes
    return {
        "capture_seconds": seconds,
        "operations": len(graph.ops),
        "keep_all_peak": everything,
        "smallest": smallest,
        "largest": tidemark.planning.with_share(everything),
    }


def run_reference(name, steps):
    subject = built(name)
    result = train(subject, steps, contextlib.nullcontext())
    statistics = allocator.statistics()
    return result | {"peak": statistics.allocated_peak_bytes, "reserved": statistics.reserved_peak_bytes}


def served_by(session):
    copies = session.counters.copies
    return copies["requests_planned"], copies["requests_unplanned"]


def run_budget(name, path, budget, steps, limited):
    graph = pickle.loads(path.read_bytes())
    begin = time.perf_counter()
    plan = tidemark.plan(graph, budget)
    result = {"planning_seconds": time.perf_counter() - begin, "predicted": plan.peak_bytes, "status": plan.status}
    plan.budget_bytes = budget if limited else 0
    result["bounded"] = any(s.bound_bytes is not None for s in graph.storages)
    result["planned_again"] = len(plan.schedule) - len(graph.ops)
    result["swaps"] = len(plan.swaps)
    subject = built(name)
    capture(name, subject, measured=False)  # as people do in the process that trains; costs are those measured once
    session = tidemark.session(plan, subject.model)
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            result |= train(subject, steps, session, lambda: served_by(session))
    except torch.OutOfMemoryError as error:
        result["out_of_memory"] = str(error)
    result["warnings"] = [str(w.message) for w in said if "tidemark" in str(w.message)]
    report = session.report()
    result |= {
        "peak": report.measured_peak_bytes,
        "reserved": report.measured_reserved_bytes,
        "off_plan": report.off_plan,
        "again": report.recomputed,
        "report": str(report),
    }
    return result


# The table


def in_process(*arguments):
    """What a process of its own says, as JSON on its last line."""
    done = subprocess.run([sys.executable, __file__, "--part", *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        return {
            "error": (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1],
            "all": done.stderr,
        }
    return json.loads(done.stdout.splitlines()[-1])


def broken(row, budget, reference):
    """What of the rule a row breaks, in words."""
    if "error" in row:
        return [row["error"]]
    if "out_of_memory" in row:
        return ["out of memory"]
    out = []
    if row["reserved"] > budget:
        out.append("taken above the budget")
    for what, bytes_ in (("blocks", row["peak"]), ("taken", row["reserved"])):
        beside = bytes_ / row["predicted"] - 1
        if beside > TOLERANCE or (beside < -TOLERANCE and not (what == "blocks" and row["bounded"])):
            out.append(f"{what} {100 * (bytes_ / row['predicted'] - 1):+.1f} % of predicted")
    if row["elsewhere"] > 0.01 * row["requests"]:
        out.append(f"{row['elsewhere']} of {row['requests']} requests not where planned")
    if row["off_plan"]:
        out.append(f"{row['off_plan']} departures")
    if row["losses"] != reference["losses"] or row["parameters"] != reference["parameters"]:
        out.append("other bits")
    return out


def mib(bytes_):
    return f"{bytes_ / 2**20:.1f}"


HEAD = (
    "| budget | predicted | blocks | taken | blocks / predicted | taken / predicted | run again | requests a step "
    "| not where planned | planning s | step, against none | rule |\n|---|---|---|---|---|---|---|---|---|---|---|---|"
)


def show_row(budget, row, reference):
    rule = "; ".join(broken(row, budget, reference)) or "holds"
    if "peak" not in row:
        print(f"| {mib(budget)} | | | | | | | | | | | {rule} |", flush=True)
        return rule == "holds"
    time_ = f"{100 * (row['seconds'] / reference['seconds'] - 1):+.0f} %" if "seconds" in row else ""
    print(
        f"| {mib(budget)} | {mib(row['predicted'])} | {mib(row['peak'])} | {mib(row['reserved'])} "
        f"| {row['peak'] / row['predicted']:.4f} | {row['reserved'] / row['predicted']:.4f} | {row['again']} "
        f"| {row.get('requests', '')} | {row.get('elsewhere', '')} | {row['planning_seconds']:.1f} | {time_} | {rule} |",
        flush=True,
    )
    return rule == "holds"


def bench(name, arguments, folder):
    """Prints the table of one model; returns whether every row holds."""
    package = MODELS[name][1]
    if package and importlib.util.find_spec(package) is None:
        print(f"\n{name}: skipped, {package} is not installed")
        return True
    path = folder / f"{name}.graph"
    facts = in_process("capture", name, path, int(not arguments.modelled), int(arguments.swap))
    reference = in_process("reference", name, arguments.steps)
    for part in (facts, reference):
        if "error" in part:
            print(f"\n{name}: {part['error']}", flush=True)
            print(part["all"], file=sys.stderr)
            return False
    print(
        f"\n{name}: {facts['operations']} operations, captured in {facts['capture_seconds']:.1f} s; MiB; without a session "
        f"{mib(reference['peak'])} in blocks and {mib(reference['reserved'])} taken, everything kept is predicted as "
        f"{mib(facts['keep_all_peak'])}; step {reference['seconds']:.2f} s\n\n{HEAD}",
        flush=True,
    )
    smallest, largest, holds = facts["smallest"], facts["largest"], True
    for i in range(arguments.budgets):
        budget = smallest + (largest - smallest) * i // max(arguments.budgets - 1, 1)
        row = in_process("budget", name, path, budget, arguments.steps, int(not arguments.unlimited))
        holds = show_row(budget, row, reference) and holds
        if arguments.log:
            with open(arguments.log, "a") as log:
                print(json.dumps({"name": name, "budget": budget, "facts": facts} | row), file=log)
    return holds


def part(arguments):
    """One process's part."""
    torch.set_num_threads(1)
    allocator.install()
    kind, name, *rest = arguments
    if kind == "capture":
        result = run_capture(name, pathlib.Path(rest[0]), bool(int(rest[1])), bool(int(rest[2])))
    elif kind == "reference":
        result = run_reference(name, int(rest[0]))
    else:
        result = run_budget(name, pathlib.Path(rest[0]), int(rest[1]), int(rest[2]), bool(int(rest[3])))
    print(json.dumps(result))
    return 0


def main():
    if sys.argv[1:2] == ["--part"]:
        return part(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--budgets", type=int, default=12)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--modelled", action="store_true", help="capture without measuring")
    parser.add_argument("--swap", action="store_true", help="with a link to host memory")
    parser.add_argument("--unlimited", action="store_true", help="no limit, to see what is needed")
    parser.add_argument("--log", help="a file that gets every row as a line of JSON")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.models if name not in MODELS]
    if unknown:
        parser.error(f"{unknown[0]!r} is no model; right would be one of {', '.join(MODELS)}")
    with tempfile.TemporaryDirectory() as folder:
        held = [bench(name, arguments, pathlib.Path(folder)) for name in arguments.models or MODELS]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
