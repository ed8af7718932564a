"""A step fitted to a budget in one call: the same losses and gradients, within the budget, whatever is around the model."""

import contextlib
import gc
import logging
import subprocess
import sys

import numpy as np
import pytest
import tidemark
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

MEBIBYTE = 2**20


def layers(width=256, depth=3):
    torch.manual_seed(0)
    blocks = (nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(depth))
    return nn.Sequential(*blocks)


def mean_square(output):
    return output.square().mean()


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def batch(rows=1024, width=256):
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(1))


def steps(model, optimizer):
    seen = []
    for _ in range(3):
        loss = mean_square(model(batch()))
        loss.backward()
        seen += what_was_learnt(model, loss)
        optimizer.step()
        optimizer.zero_grad()
    return seen


def what_was_learnt(model, *losses):
    """In memory of NumPy's, which no budget counts."""
    return [tensor.detach().float().numpy().copy() for tensor in (*losses, *(p.grad for p in model.parameters()))]


def same(a, b):
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def plain():
    model = layers()
    return steps(model, sgd(model))


def fitted(wrap=lambda model: model, budget="75%"):
    model = wrap(layers())
    optimizer = sgd(model)
    with tidemark.fit(model, batch(), mean_square, optimizer, budget) as session:
        seen = steps(model, optimizer)
    return seen, session


def test_training_is_the_same_within_the_budget():
    seen, session = fitted()
    assert same(seen, plain())
    assert session.counters.recomputed > 0 and session.counters.off_plan == 0
    report = session.report()
    assert report.measured_reserved_bytes <= report.budget_bytes
    assert report.measured_peak_bytes < session.plan.keep_all_peak_bytes - 4 * MEBIBYTE


@pytest.fixture
def one_process():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("one_process")
def test_what_is_within_distributed_data_parallel():
    seen, session = fitted(DistributedDataParallel)
    assert same(seen, plain())
    assert session.counters.recomputed > 0 and session.counters.off_plan == 0


def test_what_torch_compile_made():
    seen, session = fitted(lambda model: torch.compile(model, backend="eager"))
    assert same(seen, plain())
    assert session.counters.recomputed > 0


def test_several_devices_at_once_are_refused():
    with pytest.raises(tidemark.CaptureError, match="give tidemark its module, and train with DistributedDataParallel"):
        tidemark.fit(nn.DataParallel(layers()), batch(), mean_square, budget="75%")


def amp_steps(model, optimizer, autocast):
    """As loops of torchtitan and torchtune: the model and its loss within autocast, backward outside."""
    seen = []
    for _ in range(3):
        with autocast:
            loss = mean_square(model(batch()))
        loss.backward()
        seen += what_was_learnt(model, loss)
        optimizer.step()
        optimizer.zero_grad()
    return seen


def test_autocast_around_the_model():
    autocast = torch.autocast("cpu", torch.bfloat16)
    model = layers()
    expected = amp_steps(model, sgd(model), autocast)
    model = layers()
    optimizer = sgd(model)
    with tidemark.fit(model, batch(), mean_square, optimizer, "85%", autocast=autocast) as session:
        seen = amp_steps(model, optimizer, autocast)
    assert same(seen, expected)
    assert session.counters.recomputed > 0 and session.counters.off_plan == 0
    assert "forward" not in vars(model)


class Recipe:
    """A loop of the shape of torchtitan's and torchtune's: an object with a step, a list of model parts and a loss that is
    divided by what all micro-batches count."""

    def __init__(self):
        self.model_parts = [layers()]
        self.optimizer = sgd(self.model_parts[0])
        self.accumulation = 2
        self.seen = []

    def loss_fn(self, predicted, targets, count):
        return nn.functional.mse_loss(predicted, targets, reduction="sum") / count

    def batches(self):
        return [(batch(512), batch(512) + i) for i in range(self.accumulation)]

    def train_step(self):
        batches = self.batches()
        count = sum(targets.numel() for _, targets in batches)
        for inputs, targets in batches:
            predicted = self.model_parts[0](inputs)
            loss = self.loss_fn(predicted, targets, count)
            del predicted
            loss.backward()
        self.seen += what_was_learnt(self.model_parts[0], loss)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def train(self):
        for _ in range(3):
            self.train_step()
        return self.seen


class Critic(nn.Module):
    """Its loss has a gradient that forward takes, which backward differentiates again."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(*(part for _ in range(4) for part in (nn.Linear(256, 256), nn.SiLU())), nn.Linear(256, 1))

    def forward(self, x, y):
        between = (0.5 * (x + y)).requires_grad_()
        (slope,) = torch.autograd.grad(self.body(between).sum(), between, create_graph=True)
        return self.body(x).mean() - self.body(y).mean() + (slope.norm(dim=1) - 1).square().mean()


def test_a_gradient_that_forward_takes_is_differentiated_within_the_budget():
    def trained(context):
        torch.manual_seed(0)
        model = Critic()
        with context(model) as session:
            torch.manual_seed(1)
            for _ in range(3):
                model(torch.randn(4096, 256), torch.randn(4096, 256)).backward()
        return [p.grad for p in model.parameters()], session

    expected, _ = trained(lambda _: contextlib.nullcontext())
    gc.collect()

    def fitted(model):  # which holds no batch beside the loop's
        return tidemark.fit(model, (torch.randn(4096, 256), torch.randn(4096, 256)), budget="70%")

    found, session = trained(fitted)
    assert session.counters.recomputed > 0 and session.rungs()["spill"] == 0
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    report = session.report()
    assert report.measured_reserved_bytes <= report.budget_bytes
    assert report.measured_peak_bytes <= 1.03 * (report.predicted_peak_bytes + report.reserve_bytes)


def test_costs_are_those_of_the_rates_that_are_given():
    model, x = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)), torch.randn(32, 64)
    slow, quick = (
        tidemark.fit(model, (x,), torch.sum, budget="100%", rates=tidemark.DeviceRates(1e9 * rate, 1e9 * rate)).plan.graph.ops[0].cost
        for rate in (1e-6, 1)
    )
    assert slow > 1e5 * quick
    with pytest.raises(tidemark.CaptureError, match="give rates without measured=True"):
        tidemark.fit(model, (x,), torch.sum, budget="80%", rates=tidemark.DeviceRates(1e9, 1e9), measured=True)
    with pytest.raises(tidemark.CaptureError, match="give recorded=True without measured=True"):
        tidemark.capture(model, (x,), torch.sum, recorded=True, measured=True)


def test_a_recipe_whose_loop_is_its_own():
    expected = Recipe().train()
    recipe = Recipe()
    inputs, targets = recipe.batches()[0]
    recipe.train = tidemark.fit(
        recipe.model_parts[0],
        inputs,
        lambda predicted: recipe.loss_fn(predicted, targets, 2 * targets.numel()),
        recipe.optimizer,
        "75%",
        micro_batches=recipe.accumulation,
    )(recipe.train)
    assert same(recipe.train(), expected)


def test_what_the_process_holds_besides_is_left_to_it():
    def reserved(**arguments):
        model = layers()
        return tidemark.fit(model, batch(), mean_square, sgd(model), "75%", **arguments).plan.reserve_bytes

    before = reserved()
    kept = torch.zeros(4 * MEBIBYTE, dtype=torch.uint8)
    assert reserved() == before + kept.nbytes
    assert reserved(reserve=0) == 0 and reserved(reserve="1MiB") == MEBIBYTE


@pytest.mark.parametrize("budget", ["120MiB", 120 * MEBIBYTE])
def test_budgets_in_bytes(budget):
    assert tidemark.fit(layers(), batch(), mean_square, budget=budget).plan.budget_bytes == 120 * MEBIBYTE


def test_the_whole_of_what_the_step_takes_keeps_everything():
    assert tidemark.fit(layers(), batch(), mean_square, budget="100%").plan.keeps_all
    assert not tidemark.fit(layers(), batch(), mean_square, budget="75%").plan.keeps_all


class OfNames(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = layers()

    def forward(self, x, shift=None):
        return {"loss": mean_square(self.layers(x) + (0 if shift is None else shift))}


def of_another_model(_):
    return torch.optim.SGD([nn.Parameter(torch.ones(1))])


def split(model):
    model.layers[1].to("meta")
    return model


@pytest.mark.parametrize(
    "arguments, error, said",
    [
        ({"model": "gpt2"}, tidemark.CaptureError, "a str is no model"),
        ({"batch": {"y": batch(2)}}, tidemark.CaptureError, r"OfNames.forward\(x, shift=None\) cannot be.*the batch has 'y'"),
        ({"batch": (batch(2),) * 3}, tidemark.CaptureError, "the batch has 3 by position"),
        ({"loss": None}, tidemark.CaptureError, r'the loss of OfNames is a dict.*lambda output: output\["loss"\]'),
        ({"loss": lambda output: torch.ones(2)}, tidemark.CaptureError, r"loss of OfNames is of shape \(2,\)"),
        ({"optimizer": of_another_model}, tidemark.CaptureError, r"steps no parameter.*SGD\(model.parameters\(\)\)"),
        ({"model": split}, tidemark.CaptureError, r'several devices.*right would be model.to\("cpu"\)'),
        ({"budget": None}, ValueError, "right would be for instance budget='8GiB'"),
        ({"budget": "0%"}, ValueError, "right would be a share above zero"),
        ({"budget": "much"}, tidemark.TidemarkError, "'much' is not a size"),
        ({"budget": 0.6}, ValueError, "0.6 is no share; right would be for instance budget='60%'"),
        ({"budget": "60 per%"}, ValueError, "'60 per%' is no share"),
        ({"budget": "9" * 400 + "%"}, ValueError, "9999... is no share"),
        ({"budget": "9" * 400 + "GB"}, tidemark.TidemarkError, "is not a size"),
        ({"budget": "٦٤MiB"}, tidemark.TidemarkError, "is not a size"),
        ({"budget": "1%"}, tidemark.InfeasibleError, r"would do: budget=\d+"),
    ],
)
def test_what_is_given_wrongly_is_said_with_the_line_that_would_mend_it(arguments, error, said):
    model = OfNames()
    given = {"model": model, "batch": batch(), "loss": lambda output: output["loss"], "budget": "75%"} | arguments
    for key in ("model", "optimizer"):
        given[key] = given[key](model) if key in given and not isinstance(given[key], (nn.Module, str)) else given.get(key)
    with pytest.raises(error, match=said):
        tidemark.fit(**given)


def test_what_was_done_is_in_the_log(caplog):
    caplog.set_level(logging.INFO, "tidemark")
    model = layers()
    with tidemark.fit(model, batch(), mean_square, budget="75%"):
        mean_square(model(batch())).backward()
    said = [record.getMessage() for record in caplog.records]
    assert any("captured Sequential in" in line and "with everything kept" in line for line in said)
    assert any("planned Sequential in" in line and "operations recomputed" in line for line in said)
    assert any(line.startswith("session begins: peak") for line in said)
    assert "session ends: 3 operations recomputed, 0 storages swapped, 0 departures; peak" in said[-1]
    assert said[-1].count("MiB measured") == 1 and said[-1].count("MiB predicted") == 1
    assert all(record.name.startswith("tidemark.") for record in caplog.records)


WITHOUT_ALLOCATOR = """
import tidemark, torch
from torch import nn
model = nn.Sequential(nn.Linear(64, 64), nn.GELU())
with tidemark.fit(model, torch.randn(64, 64), lambda output: output.mean(), budget="64MiB") as session:
    model(torch.randn(64, 64)).mean().backward()
    assert tidemark.allocator.statistics().limit_bytes == 64 * 2**20
"""


def test_the_allocator_is_installed_where_it_is_not():
    ran = subprocess.run([sys.executable, "-c", WITHOUT_ALLOCATOR], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "KiB of parameters came before it" in ran.stderr and ran.stdout == ""


def test_the_search_is_shown_and_limited_as_in_plan():
    model, told = layers(), []
    tidemark.fit(model, batch(), mean_square, sgd(model), "75%", time_limit=60, progress=told.append)
    assert told[-1] == 1.0
    with pytest.raises(tidemark.TidemarkError, match="above zero"):
        tidemark.fit(model, batch(), mean_square, sgd(model), "75%", time_limit=0)
