"""What is given wrongly is refused in one sentence; what is given in another form is taken."""

import copy
import inspect
import pickle

import pytest
import tidemark
import torch
from test_misuse import PLANS, gradients, mean_square, recomputing, works
from torch import nn
from training import same

from models import transformer


class OfGroups(torch.optim.Optimizer):
    """Wants another optimizer's class."""

    def __init__(self, params, base):
        super().__init__(params, {})
        self.base = base(self.param_groups)


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(32, 32)

    def forward(self, x):
        x = self.linear(x)
        return x * 2 if x.sum() > 0 else x


def given(**arguments):
    model, inputs, loss_fn = transformer(layers=1)
    return tidemark.capture(model, inputs, **{"loss_fn": loss_fn} | arguments)


def forward(i, chunk):
    return ("forward", i, chunk)


@pytest.mark.parametrize(
    "arguments, said",
    [
        ({"loss_fn": 3}, "loss_fn is of type int"),
        ({"optimizer": torch.optim.Adam}, "optimizer is of type type; right would be Optimizer"),
        ({"bounds": ["mlp"]}, "bounds is of type list"),
        ({"bounds": {"mlp": 3}}, "bounds has 'mlp': 3"),
        ({"rates": 60e9}, "rates is of type float; right would be DeviceRates"),
        ({"host_link": 12e9}, "host_link is of type float; right would be HostLink"),
        ({"order": [1, 2]}, "order has 1; right would be"),
        ({"order": [("backward", 0, 0)]}, "each backward follows its own forward, once"),
        ({"order": [forward(0, 0), forward(0, 0)]}, "each backward follows its own forward, once"),
        ({"order": [forward(0, 1)]}, "there are 1 micro-batches and 1 chunks"),
    ],
)
def test_arguments_of_capture(arguments, said):
    with pytest.raises(tidemark.CaptureError, match=said):
        given(**arguments)


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.LBFGS(p),
        lambda p: torch.optim.SparseAdam(p),
        lambda p: OfGroups(p, torch.optim.SGD),
    ],
)
def test_an_optimizer_that_cannot_be_captured_is_named(make):
    model, inputs, loss_fn = transformer(layers=1)
    with pytest.raises(tidemark.CaptureError, match="cannot be captured.*capture without it, and leave room"):
        tidemark.capture(model, inputs, loss_fn, optimizer=make(list(model.parameters())))


OPTIMIZERS = "Adadelta Adafactor Adagrad Adam Adamax AdamW ASGD NAdam RAdam RMSprop Rprop SGD".split()
FORMS = [
    (name, options)
    for name in OPTIMIZERS
    for options in ({}, {"foreach": True}, {"fused": True})
    if options.keys() <= inspect.signature(getattr(torch.optim, name)).parameters.keys()
]


@pytest.mark.parametrize("name, options", FORMS, ids=str)
def test_every_optimizer_of_pytorch(name, options):
    model, inputs, loss_fn = transformer(layers=1)
    stepper = getattr(torch.optim, name)(model.parameters(), **options)
    graph = tidemark.capture(model, inputs, loss_fn, optimizer=stepper)
    assert any(op.phase == "optimizer" for op in graph.ops)


def test_what_has_no_sense_is_no_rate_and_no_count():
    for make in (
        lambda: tidemark.HostLink(0, 1),
        lambda: tidemark.DeviceRates(flops_per_s=-1),
        lambda: tidemark.Routed(-1, 2),
        lambda: tidemark.Routed(4, 0),
        lambda: tidemark.Rows("all"),
    ):
        with pytest.raises(tidemark.CaptureError, match="has no sense"):
            make()


def test_where_gradients_are_off_nothing_is_captured():
    with torch.no_grad(), pytest.raises(tidemark.CaptureError, match="gradients are switched off"):
        given()


def test_a_model_that_is_called_twice_for_one_loss():
    model, inputs, _ = transformer(layers=1)
    with pytest.raises(tidemark.CaptureError, match="called a second time for one loss"):
        tidemark.capture(model, inputs, lambda out: (out + model(*inputs)).sum())


def test_a_branch_on_a_tensor():
    with pytest.raises(tidemark.CaptureError, match="decides by the value of a tensor"):
        tidemark.capture(Branching(), (torch.randn(8, 32),), mean_square)


def test_nested_tensors_are_not_captured():
    for layout in (torch.strided, torch.jagged):
        nested = torch.nested.nested_tensor([torch.randn(2, 32), torch.randn(3, 32)], layout=layout)
        with pytest.raises(tidemark.CaptureError, match="is nested"):
            tidemark.capture(nn.Linear(32, 32), (nested,), mean_square)


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x):
        rows = torch.tanh(self.before(x))[x[:, :, 0] > -1]
        return torch.tanh(self.after(rows))


@pytest.mark.parametrize("plan_of", PLANS.values(), ids=PLANS)
def test_rows_that_a_mask_in_brackets_selects(plan_of):
    torch.manual_seed(0)
    model, x = Masked(), torch.randn(4, 8, 32)
    with pytest.raises(tidemark.CaptureError, match="say how many rows"):
        tidemark.capture(model, (x,), mean_square)
    plan = plan_of(tidemark.capture(model, (x,), mean_square, bounds={"": tidemark.Rows(expected=27)}))
    assert not plan.keeps_all and works(model, (x,), mean_square, plan)


def test_a_plan_on_file_is_of_no_model_until_it_is_given_one():
    model, inputs, loss_fn = transformer()
    plan = pickle.loads(pickle.dumps(recomputing(tidemark.capture(model, inputs, loss_fn))))
    with pytest.raises(tidemark.SessionError, match="give the model"):
        tidemark.session(plan)
    assert works(model, inputs, loss_fn, plan)


def test_graphs_and_plans_are_printed_in_one_line():
    model, inputs, loss_fn = transformer()
    plan = recomputing(tidemark.capture(model, inputs, loss_fn))
    assert repr(plan.graph).startswith("<Graph of Sequential: ") and len(repr(plan.graph)) < 120
    assert "operations recomputed" in repr(plan) and len(repr(plan)) < 200


def test_statistics_are_printed_with_their_names():
    now = tidemark.allocator.statistics()
    assert repr(now).startswith(f"Statistics(requested_bytes={now.requested_bytes}, requested_peak_bytes=")
    assert f"limit_bytes={now.limit_bytes})" in repr(now)


def test_devices_and_sizes_in_every_form():
    graph = given()
    assert tidemark.plan(graph, "1GiB", device=torch.device("cpu")).keeps_all
    before = tidemark.allocator.statistics().limit_bytes
    with tidemark.allocator.budget("1GiB"):
        assert tidemark.allocator.statistics().limit_bytes == 2**30
    assert tidemark.allocator.statistics().limit_bytes == before
    for size in ("lots", -1, None, 1.5):
        with pytest.raises(tidemark.TidemarkError, match="is not a size"):
            tidemark.allocator.set_limit(size)
    for size in (0, -1, "0B"):
        with pytest.raises(tidemark.TidemarkError, match="is not a size"):
            tidemark.allocator.budget(size)
    with pytest.raises(tidemark.TidemarkError, match="is no phase of a step"):
        tidemark.allocator.set_phase("forwards")
    with pytest.raises(tidemark.TidemarkError, match="is not a size"):
        tidemark.session(tidemark.plan(graph, "1GiB"), transformer(layers=1)[0], host_bytes="lots")


def test_a_deep_copy_of_the_model_is_trained_by_the_same_plan():
    model, inputs, loss_fn = transformer()
    plan = recomputing(tidemark.capture(model, inputs, loss_fn))
    twin = copy.deepcopy(model)
    session = tidemark.session(plan, twin)
    assert same(gradients(twin, session, inputs, loss_fn), gradients(model, tidemark.session(plan), inputs, loss_fn))
    assert session.counters.recomputed > 0
