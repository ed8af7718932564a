"""Loops of pipelines as schedules run them: several micro-batches in flight, several chunks of the model in a process, and
outputs whose memory is given up before backward, which autograd's engine is then called for itself. A step is recorded and
planned, and what follows has the bits of the loop without a plan."""

import hashlib

import pytest
import tidemark
import torch
from random_plans import random_plan
from tidemark import allocator
from torch import nn

ORDER = (("F", 0), ("F", 1), ("B", 0), ("F", 2), ("B", 1), ("F", 3), ("B", 2), ("B", 3))  # one forward, one backward
STEPS = 5


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x, mask):
        hidden = nn.functional.gelu(self.up(self.norm(x))).masked_fill(mask, 0.0)
        return x + self.down(nn.functional.dropout(hidden, 0.1))


class Chunk(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList((Layer(), Layer()))

    def forward(self, x, mask):
        for layer in self.layers:
            x = layer(x, mask)
        return x


class Stage:
    """A process's part of a pipeline: `chunks` run one behind the other for every micro-batch."""

    def __init__(self, chunks):
        torch.manual_seed(3)
        self.chunks = [Chunk() for _ in range(chunks)]
        self.model = self.chunks[0] if chunks == 1 else nn.ModuleList(self.chunks)
        self._optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)

    def step(self, number):
        data = torch.Generator().manual_seed(number)
        outputs, inputs = {}, {}
        for kind, i in ORDER:
            if kind == "F":
                for c, module in enumerate(self.chunks):
                    x = torch.randn(64, 32, generator=data) if c == 0 else outputs[i, c - 1].detach()
                    inputs[i, c] = x.requires_grad_()
                    mask = torch.ones(64, 128, dtype=torch.bool).triu(1)  # by the loop, before the forward that it is for
                    outputs[i, c] = module(x, mask)
            else:
                gradient = torch.ones(64, 32)
                for c in reversed(range(len(self.chunks))):
                    self.backward(outputs.pop((i, c)), gradient)
                    gradient = inputs.pop((i, c)).grad
        seen = [hashlib.sha1(memoryview(p.grad.numpy()).cast("B")).hexdigest() for p in self.model.parameters()]
        self._optimizer.step()
        self._optimizer.zero_grad()
        return seen

    def backward(self, output, gradient):
        torch.autograd.backward(output, gradient)


class Deallocating(Stage):
    """As Megatron-Core's custom_backward(): the output is one element by then, which torch.autograd.backward() refuses."""

    def backward(self, output, gradient):
        output.data = torch.empty(1)
        torch.autograd.Variable._execution_engine.run_backward(
            tensors=(output,),
            grad_tensors=(gradient,),
            keep_graph=False,
            create_graph=False,
            inputs=(),
            allow_unreachable=True,
            accumulate_grad=True,
        )


def started(kind, chunks):
    stage = kind(chunks)
    torch.manual_seed(1)
    return stage


def steps(stage, numbers):
    return [digest for number in numbers for digest in stage.step(number)]


@pytest.mark.parametrize(("kind", "chunks"), [(Stage, 1), (Stage, 2), (Deallocating, 1), (Deallocating, 2)])
def test_a_recorded_schedule_trains_by_its_plan(kind, chunks):
    before = allocator.statistics().allocated_bytes  # of other tests, in caches of the compiler
    plain = steps(started(kind, chunks), range(STEPS))
    stage = started(kind, chunks)
    seen = steps(stage, range(2))
    with tidemark.record(stage.model) as recording:
        seen += steps(stage, [2])
    graph = recording.graph()
    assert graph.micro_batches == 4 * chunks
    with tidemark.session(random_plan(graph, 0, share=0.8), stage.model) as session:
        seen += steps(stage, range(3, STEPS))
    assert seen == plain
    report, done = session.report(), session.counters
    assert done.recomputed > 0 and done.off_plan == 0 and done.micro_batches == 2 * graph.micro_batches
    assert report.measured_peak_bytes - before < 1.03 * report.predicted_peak_bytes


@pytest.mark.parametrize("kind", [Stage, Deallocating])
def test_backward_is_of_the_micro_batch_that_it_asks_for(kind):
    stage = kind(1)
    stage.step(0)
    with tidemark.record(stage.model) as recording:
        stage.step(1)
    graph = recording.graph()
    batches = [op.micro_batch for op in graph.ops if op.phase == "backward"]
    assert list(dict.fromkeys(batches)) == [0, 1, 2, 3]
    assert graph.batches_that_end_first() == {3}


def test_autograds_engine_is_its_own_again_behind_a_recording():
    engine = torch.autograd.Variable._execution_engine
    stage = Stage(1)
    stage.step(0)
    with tidemark.record(stage.model):
        assert torch.autograd.Variable._execution_engine is not engine
        stage.step(1)
    assert torch.autograd.Variable._execution_engine is engine


def test_a_recorded_step_is_planned_beside_what_the_process_holds():
    stage = Stage(1)
    stage.step(0)
    beside = torch.ones(3 << 20, dtype=torch.uint8)
    with tidemark.record(stage.model) as recording:
        stage.step(1)
    plan = recording.plan("60%")
    assert plan.reserve_bytes >= beside.nbytes
    assert recording.plan("24MiB", reserve="5MiB").reserve_bytes == 5 << 20
    assert recording.plan("60%", reserve=0).budget_bytes < plan.budget_bytes - beside.nbytes
