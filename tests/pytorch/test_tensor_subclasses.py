"""Models whose weights or activations are quantised tensors of others (torchao's NF4 and Float8) and of a class that is made as
TransformerEngine's FP8 tensors are: planned, they train bit for bit as without a plan, within the budget."""

import functools
import importlib.util
import warnings

import pytest
import tidemark
import torch
from scaled_tensor import FrozenScaledLinear, ScaledLinear
from torch import nn

WIDTH, DEPTH, BATCH, LENGTH = 256, 4, 8, 256


class Adapted(nn.Module):
    """A frozen layer beside a low-rank product that is trained, as LoRA has it."""

    def __init__(self, frozen, width=WIDTH, rank=8):
        super().__init__()
        self.frozen = frozen
        self.down, self.up = nn.Linear(width, rank, bias=False), nn.Linear(rank, width, bias=False)

    def forward(self, x):
        return self.frozen(x) + self.up(self.down(x))


class Block(nn.Module):
    def __init__(self, linear):
        super().__init__()
        self.norm, self.first, self.second = nn.LayerNorm(WIDTH), linear(), linear()

    def forward(self, x):
        return x + self.second(nn.functional.gelu(self.first(self.norm(x))))


def blocks(linear):
    torch.manual_seed(0)
    return nn.Sequential(*(Block(linear) for _ in range(DEPTH)))


def scaled():
    return blocks(lambda: ScaledLinear(WIDTH, WIDTH))


def frozen_scaled():
    return blocks(lambda: Adapted(FrozenScaledLinear(WIDTH)))


def _needs_torchao():
    if importlib.util.find_spec("torchao") is None:
        pytest.skip("torchao is not installed")


class NF4Linear(nn.Module):
    """As QLoRA's: the weight is kept in four bits a number, and made whole in forward and in backward."""

    def __init__(self):
        super().__init__()
        nf4 = _nf4()
        self.weight = nn.Parameter(nf4.to_nf4(torch.randn(WIDTH, WIDTH) / WIDTH**0.5), requires_grad=False)
        self.product = nf4.linear_nf4

    def forward(self, x):
        return self.product(x, self.weight)


def _nf4():
    """The module that has it: torchao 0.18 moved it."""
    try:
        from torchao.quantization.quantize_.workflows.nf4 import nf4_tensor
    except ImportError:
        from torchao.dtypes import nf4tensor as nf4_tensor
    return nf4_tensor


def nf4_lora():
    _needs_torchao()
    return blocks(lambda: Adapted(NF4Linear()))


def float8():
    """Products are emulated in float32: a CPU has none of Float8."""
    _needs_torchao()
    from torchao.float8 import Float8LinearConfig, convert_to_float8_training

    return convert_to_float8_training(blocks(lambda: nn.Linear(WIDTH, WIDTH)), config=Float8LinearConfig(emulate=True))


def batch():
    return torch.randn(BATCH, LENGTH, WIDTH, generator=torch.Generator().manual_seed(1))


def loss_of(output):
    return output.square().mean()


def made(build):
    model = build()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    return model, optimizer


def steps(model, optimizer, count=3):
    """In memory of NumPy's, which no budget counts."""
    seen, given = [], batch()
    for _ in range(count):
        loss = loss_of(model(given))
        loss.backward()
        seen.append(loss.detach().numpy().copy())
        seen += [p.grad.numpy().copy() for p in model.parameters() if p.grad is not None]
        optimizer.step()
        optimizer.zero_grad()
    return seen


def fitted(model, optimizer):
    """To 60 % of what the step takes with everything kept, or to the smallest budget that does."""
    begin = functools.partial(tidemark.fit, model, batch(), loss_of, optimizer, holds_output=False)
    try:
        return begin("60%")
    except tidemark.InfeasibleError as error:
        return begin(error.smallest_bytes)


@pytest.mark.parametrize("build", [scaled, frozen_scaled, nf4_lora, float8], ids=lambda build: build.__name__)
def test_quantised_tensors_are_planned_by_what_they_hold(build):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="torch.*|torchao.*")
        model, optimizer = made(build)
        plain = steps(model, optimizer)
        del model, optimizer
        model, optimizer = made(build)
        with fitted(model, optimizer) as session:
            planned = steps(model, optimizer)
    assert all((a == b).all() for a, b in zip(planned, plain, strict=True))
    report = session.report()
    assert not any(storage.name.startswith("constant") for storage in session.plan.graph.storages), "made by a call unseen"
    assert session.counters.recomputed > 0 and session.counters.off_plan == 0
    assert report.measured_reserved_bytes <= report.budget_bytes
    print(f"{build.__name__}: {session.plan}, {report}")
    assert abs(report.measured_peak_bytes - report.predicted_peak_bytes) <= 0.03 * report.predicted_peak_bytes
