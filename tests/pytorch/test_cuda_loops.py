"""Training loops on a GPU beside those of test_cuda.py: steps that are recorded, in mixed precision, compiled, on two streams,
within DistributedDataParallel; and a graph over tensors whose pool was released meanwhile. Bit for bit as without a session.

On the CPU with TIDEMARK_STAND_IN=1: see on_gpu.py."""

import contextlib

import on_gpu
import pytest
import tidemark
import torch
from tidemark import torch_internals
from torch import nn
from training import same

from models import ResNet

KIND = on_gpu.kind_or_skip()
needs_gpu = pytest.mark.skipif(KIND != "cuda", reason="streams and graphs are a GPU's")
WIDTH, ROWS, LAYERS, STEPS = (512, 4096, 6, 4) if KIND == "cuda" else (64, 512, 3, 4)


@pytest.fixture(scope="module", autouse=True)
def on_the_gpu():
    yield from on_gpu.reproducibly(KIND)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.wide = nn.Linear(WIDTH, 4 * WIDTH)
        self.narrow = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.narrow(nn.functional.dropout(nn.functional.gelu(self.wide(self.norm(x))), 0.1))


class TwoStreams(nn.Module):
    """Half of the work is done on a stream of its own, as PyTorch asks of such code: streams wait, and memory is recorded."""

    def __init__(self):
        super().__init__()
        self.left, self.right = Block(), Block()
        self.side = torch.cuda.Stream()

    def forward(self, x):
        here = torch.cuda.current_stream()
        self.side.wait_stream(here)
        with torch.cuda.stream(self.side):
            right = self.right(x)
        x.record_stream(self.side)
        left = self.left(x)
        here.wait_stream(self.side)
        right.record_stream(here)
        return left + right


def of_layers(make=Block, layers=LAYERS):
    torch.manual_seed(0)
    return nn.Sequential(*[make() for _ in range(layers)]), (torch.randn(ROWS, WIDTH),), lambda out: out.square().mean()


def compiled():
    model, batch, loss_of = of_layers()
    for layer in model:
        layer.compile()
    return model, batch, loss_of


def of_convolutions():
    """Large enough to be planned in granules of 2 MiB."""
    torch.manual_seed(0)
    channels, pixels = (64, 64) if KIND == "cuda" else (8, 32)
    images, labels = torch.randn(64, 3, pixels, pixels), torch.arange(64) % 10
    return ResNet(channels), (images,), lambda out: nn.functional.cross_entropy(out, labels)


BUILDS = {"layers": of_layers, "convolutions": of_convolutions}


def fitted(*step, budget, **how):
    """Within the budget, or the smallest that does."""
    try:
        return tidemark.fit(*step, budget, **how)
    except tidemark.InfeasibleError as error:
        return tidemark.fit(*step, error.smallest_bytes, **how)


def trained(build, budget=None, wrap=lambda model: model, autocast=None):
    """Losses and gradients of every step; the session, and its counters behind every step."""
    model, batch, loss_of = build()
    model = wrap(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    session = None
    if budget is not None:
        session = fitted(model, batch, loss_of, optimizer, budget=budget, autocast=autocast)
    torch.manual_seed(1)
    seen, counts = [], []
    with session or contextlib.nullcontext():
        for _ in range(STEPS):
            with autocast() if autocast else contextlib.nullcontext():
                loss = loss_of(model(*batch))
            loss.backward()
            seen += [loss.detach().clone(), *(p.grad.clone() for p in model.parameters())]
            optimizer.step()
            optimizer.zero_grad()
            if session is not None:
                counts.append(session.counters.copies)
        on_gpu.synchronize(KIND)
    return seen, session, counts


def is_followed(session):
    """Something was saved, and no step was another than the planned one."""
    counters = session.counters
    assert counters.recomputed + counters.swapped > 0
    assert counters.off_plan == 0
    return True


@pytest.mark.parametrize("budget", ["100%", "70%", "50%"])
@pytest.mark.parametrize("name", BUILDS)
def test_a_recorded_step_is_followed_where_it_is_planned(name, budget):
    plain = trained(BUILDS[name])[0]
    assert same(plain, trained(BUILDS[name])[0]), "kernels are not the same every time"
    seen, session, counts = trained(BUILDS[name], budget)
    assert same(seen, plain)
    served, elsewhere = (counts[-1][k] - counts[-2][k] for k in ("requests_planned", "requests_unplanned"))
    print(f"{name} at {budget}: a step has {served} requests where planned and {elsewhere} elsewhere; {session.report()}")
    assert served >= 0.99 * (served + elsewhere)
    assert budget == "100%" or is_followed(session)


def test_mixed_precision():
    def autocast():
        return torch.autocast(KIND, torch.bfloat16)

    seen, session, _ = trained(of_layers, "60%", autocast=autocast)
    assert is_followed(session)
    assert same(seen, trained(of_layers, autocast=autocast)[0])


@pytest.mark.skipif(not torch_internals.runs_compiled_under_modes, reason="this PyTorch runs uncompiled under modes")
def test_compiled_layers():
    seen, session, _ = trained(compiled, "60%")
    assert any(op.name == "tidemark.region" for op in session.plan.graph.ops)
    assert is_followed(session)
    assert same(seen, trained(compiled)[0])


@needs_gpu
def test_work_on_two_streams():
    def build():
        return of_layers(TwoStreams, layers=3)

    plain = trained(build)[0]
    assert same(plain, trained(build)[0]), "without a session it is not the same every time"
    seen, session, _ = trained(build, "70%")
    print(f"two streams: {session.counters}")
    assert same(seen, plain)


@pytest.fixture
def one_process():
    backend = "nccl" if KIND == "cuda" else "gloo"
    torch.distributed.init_process_group(backend, store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("one_process")
def test_within_distributed_data_parallel():
    wrap = nn.parallel.DistributedDataParallel
    seen, session, _ = trained(of_layers, "70%", wrap)
    assert is_followed(session)
    assert same(seen, trained(of_layers, wrap=wrap)[0])


@needs_gpu
def test_a_graph_is_replayed_over_a_pool_that_was_released():
    with tidemark.pool("frozen"):
        weight = torch.randn(2048, 2048)
    rows, out = torch.randn(64, 2048), torch.empty(64, 2048)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.mm(rows, weight, out=out)
    torch.cuda.current_stream().wait_stream(side)
    wanted = out.clone()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.mm(rows, weight, out=out)
    free_bytes = torch.cuda.mem_get_info()[0]
    assert tidemark.release("frozen", keep=True) >= weight.nbytes
    assert torch.cuda.mem_get_info()[0] >= free_bytes + weight.nbytes
    tidemark.restore("frozen")
    out.zero_()
    graph.replay()
    assert torch.equal(out, wanted)
