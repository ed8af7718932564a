"""One process of an engine's job over gloo: a step recorded, planned, and trained beside the same without a plan. Prints
what came of it as JSON.

    python engine_process.py ENGINE RANK WORLD STORE
"""

import gc
import hashlib
import json
import pathlib
import sys

import conftest  # noqa: F401  one thread of PyTorch, and Tidemark's allocator
import tidemark
import torch
import torch.distributed as dist
from random_plans import least, random_plan
from tidemark.graph import HostLink
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

LINK = HostLink(1e12, 1e12, 0)
ROWS, WIDTH = 512, 48


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.dropout(nn.functional.gelu(self.up(self.norm(x))), 0.1))


class Layers(nn.Module):
    def __init__(self, count=4, width=WIDTH):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width) for _ in range(count))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def loss_of(output, _=None):
    return output.square().mean()


class Plain:
    """A step is forward, backward and the optimizer's."""

    def __init__(self, model, width=WIDTH):
        self.model, self.width = model, width
        self._optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def step(self, x):
        loss = self.forward_backward(x)
        gradients = [digest(p.grad) for p in self.model.parameters()]
        self._optimizer.step()
        self._optimizer.zero_grad()
        return [loss, *gradients]

    def forward_backward(self, x):
        loss = loss_of(self.model(x))
        loss.backward()
        return loss.item()


class Pipelined(Plain):
    def __init__(self, model, schedule, is_first, is_last):
        super().__init__(model)
        self._schedule, self._is_first, self._is_last = schedule, is_first, is_last

    def forward_backward(self, x):
        losses = []
        ends = {"target": x, "losses": losses} if self._is_last else {}
        self._schedule.step(*((x,) if self._is_first else ()), **ends)
        return [loss.item() for loss in losses]


def ddp(_rank, _world):
    return Plain(nn.parallel.DistributedDataParallel(Layers()))


def fsdp2(_rank, world, width=WIDTH):
    from torch.distributed.fsdp import fully_shard

    model, mesh = Layers(width=width), init_device_mesh("cpu", (world,))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return Plain(model, width)


def fsdp2_within_budget(rank, world):
    """What is gathered for a layer are several MiB, which are there twice: together, and as its weights."""
    return fsdp2(rank, world, 256)


def tensor_parallel(_rank, world):
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    model, mesh = Layers(), init_device_mesh("cpu", (world,))
    for layer in model.layers:
        layer.forward = _without_dropout(layer)  # draws alike on no two ranks
        parallelize_module(layer, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return Plain(model)


def _without_dropout(layer):
    return lambda x: x + layer.down(nn.functional.gelu(layer.up(layer.norm(x))))


def pipelining(rank, world):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    model = Layers(3)
    stage = PipelineStage(model, rank, world, torch.device("cpu"))
    return Pipelined(model, Schedule1F1B(stage, 2, loss_fn=loss_of), rank == 0, rank == world - 1)


ENGINES = {f.__name__: f for f in (ddp, fsdp2, fsdp2_within_budget, tensor_parallel, pipelining)}


def digest(tensor):
    whole = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return hashlib.sha1(whole.detach().contiguous().numpy().tobytes()).hexdigest()


def batch(number, width):
    return torch.randn(ROWS, width, generator=torch.Generator().manual_seed(number))


def steps(job, numbers):
    return [job.step(batch(n, job.width)) for n in numbers]


def made_plan(engine, graph):
    """And the least budget that is known to do, where the engine is to train within a tenth more."""
    if engine != "fsdp2_within_budget":
        return random_plan(graph, 0, share=0.8, link=LINK), None
    smallest = least(graph)
    return tidemark.plan(graph, smallest + smallest // 10), smallest


def main():
    engine, rank, world, store = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), pathlib.Path(sys.argv[4])
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)

    def job():
        torch.manual_seed(0)
        made = ENGINES[engine](rank, world)
        torch.manual_seed(rank)
        return made

    plain = steps(job(), range(7))
    gc.collect()
    planned = job()
    seen = steps(planned, range(2))
    with tidemark.record(planned.model, host_link=LINK) as recording:
        seen += steps(planned, [2])
    graph = recording.graph()
    plan, smallest = made_plan(engine, graph)
    gc.collect()
    tidemark.allocator.empty_cache()
    with tidemark.session(plan, planned.model) as session:
        seen += steps(planned, range(3, 7))
    report, done = session.report(), session.counters
    print(
        json.dumps(
            {
                "trained_alike": seen == plain,
                "acted": done.recomputed + done.swapped,
                "off_plan": done.off_plan,
                "predicted": report.predicted_peak_bytes,
                "measured": report.measured_peak_bytes,
                "keep_all": graph.keep_all_peak_bytes(),
                "micro_batches": graph.micro_batches,
                "least": smallest,
                "gaps": graph.gaps_bytes,
                "budget": plan.budget_bytes,
                "reserved": report.measured_reserved_bytes,
                "requests": [report.copies["requests_planned"], report.copies["requests_unplanned"]],
            }
        )
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
