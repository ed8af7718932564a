"""Memory as measured by the allocator against memory as predicted."""

import contextlib
import gc
import os
import pickle
import re
import subprocess
import sys

import pytest
import tidemark
import torch
from random_plans import random_plan
from test_capture import ByRule
from tidemark import allocator
from torch import nn

from models import ResNet


def transformer():
    torch.manual_seed(0)
    layers = [nn.TransformerEncoderLayer(96, 4, 384, 0.1, batch_first=True, norm_first=True) for _ in range(4)]
    return nn.Sequential(*layers), (torch.randn(8, 48, 96),), lambda out: out.square().mean()


def resnet():
    torch.manual_seed(0)
    target = torch.arange(16) % 10
    return ResNet(16, 4), (torch.randn(16, 3, 48, 48),), lambda out: nn.functional.cross_entropy(out, target)


BUILDS = {"transformer": transformer, "resnet": resnet}


def peak_of(build, plan, steps=3, **options):
    """Largest sum of blocks in a step after the first, of what the step itself needs."""
    gc.collect()
    before = allocator.statistics().allocated_bytes
    model, inputs, loss_fn = build()
    stepper = torch.optim.AdamW(model.parameters())
    with tidemark.session(plan, model, **options) as session:
        for step in range(steps):
            if step == 1:
                allocator.reset_peaks()
            loss_fn(model(*inputs)).backward()
            stepper.step()
            stepper.zero_grad()
        assert session.counters.off_plan == 0
        return allocator.statistics().allocated_peak_bytes - before


def captured(build):
    model, inputs, loss_fn = build()
    stepper = torch.optim.AdamW(model.parameters())
    return tidemark.capture(model, inputs, loss_fn, optimizer=stepper, measured=True, holds_output=False)


@pytest.mark.parametrize("seed", [None, 0, 1, 2, 3])
@pytest.mark.parametrize("name", BUILDS)
def test_measured_peak_is_the_predicted_one(name, seed):
    graph = captured(BUILDS[name])
    plan = random_plan(graph, seed) if seed is not None else random_plan(graph, 0, share=0.0)
    measured = peak_of(BUILDS[name], plan)
    assert 0.97 * plan.peak_bytes <= measured <= plan.peak_bytes


class SavesItsInput(torch.autograd.Function):
    """Kernels run between the last that reads the input and the saving of it, which is when forward returns."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return torch.matmul(x, weight.t())

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return gradient @ weight, gradient.flatten(0, 1).t() @ x.flatten(0, 1)


class OwnLinear(nn.Linear):
    def forward(self, x):
        return SavesItsInput.apply(x, self.weight)


class OwnBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(96), OwnLinear(96, 384), OwnLinear(384, 96)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def own_functions():
    torch.manual_seed(0)
    return nn.Sequential(*[OwnBlock() for _ in range(4)]), (torch.randn(8, 48, 96),), lambda out: out.square().mean()


@pytest.mark.parametrize("seed", range(3))
def test_what_functions_of_the_user_save_is_let_go_as_planned(seed):
    plan = random_plan(captured(own_functions), seed, share=1.0)
    assert 0.97 * plan.peak_bytes <= peak_of(own_functions, plan) <= plan.peak_bytes


class LargeOutput(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = transformer()[0], nn.Linear(96, 2000)

    def forward(self, x):
        return self.head(self.body(x))


@pytest.mark.parametrize("holds", [False, True])
def test_an_output_is_planned_for_as_long_as_the_loop_holds_it(holds):
    torch.manual_seed(0)
    model, inputs = LargeOutput(), (torch.randn(8, 48, 96),)
    loss_fn = lambda out: nn.functional.cross_entropy(out.flatten(0, 1), torch.arange(384))  # noqa: E731
    graph = tidemark.capture(model, inputs, loss_fn, measured=True, holds_output=holds)
    predicted = graph.keep_all_peak_bytes()
    gc.collect()
    parameters = sum(graph.rounded(p.numel() * 4) for p in model.parameters())
    before = allocator.statistics().allocated_bytes - parameters - graph.rounded(inputs[0].numel() * 4)
    for _ in range(2 if holds else 1):
        model.zero_grad()
        allocator.reset_peaks()
        output = model(*inputs)  # the one of the step before is there meanwhile
        loss = loss_fn(output)
        if not holds:
            del output
        loss.backward()
    measured = allocator.statistics().allocated_peak_bytes - before
    held_over = graph.rounded(output.numel() * 4) if holds else 0  # planned for until the step ends
    assert 0.97 * (predicted - held_over) <= measured <= 1.01 * predicted


def test_a_limit_is_an_exception_that_names_the_holders():
    allocator.empty_cache()
    held = torch.empty(40 << 20, dtype=torch.uint8)
    with allocator.budget(allocator.statistics().allocated_bytes + (32 << 20)):
        with pytest.raises(
            torch.OutOfMemoryError, match="(?s)tidemark: .*tried to allocate 64.00 MiB.*Largest holders.* of 40.00 MiB"
        ):
            torch.empty(64 << 20, dtype=torch.uint8)
        assert torch.ones(1000).sum() == 1000  # what fits still does
    assert torch.empty(64 << 20, dtype=torch.uint8).numel() > held.numel()


def test_where_memory_runs_out_the_holders_are_modules():
    graph = captured(transformer)
    plan = random_plan(graph, 0, share=0.1)
    model, inputs, loss_fn = transformer()
    inputs = (torch.randn(64, 48, 96),)
    with tidemark.session(plan, model, host_bytes=4096) as session:  # hardly anything is spilled
        loss_fn(model(*inputs)).backward()
        allocator.empty_cache()
        with allocator.budget(allocator.statistics().reserved_bytes + (24 << 20)):
            with pytest.raises(torch.OutOfMemoryError, match=r"(?s)Largest holders: .* MiB 0\.self_attn \("):
                loss_fn(model(*inputs))
        assert session.counters.off_plan == 0
    held = torch.empty(3 << 20, dtype=torch.uint8)
    assert held.numel() and "no module" in allocator.holders()


def test_memory_of_before_and_after_goes_back_to_where_it_came_from():
    inside = torch.ones(1 << 20)
    allocator.remove()
    try:
        outside = torch.ones(1 << 20)
        del inside
    finally:
        allocator.install()
    before = allocator.statistics()
    del outside
    after = allocator.statistics()
    assert (after.allocated_bytes, after.frees_total) == (before.allocated_bytes, before.frees_total)


def test_snapshot_is_what_the_memory_viewer_reads(tmp_path):
    held = torch.ones(3 << 20)
    allocator.snapshot(tmp_path / "memory.pickle")
    value = pickle.loads((tmp_path / "memory.pickle").read_bytes())
    blocks = [b["size"] for segment in value["segments"] for b in segment["blocks"] if b["state"] == "active_allocated"]
    assert held.untyped_storage().nbytes() in blocks


def test_report_has_both_sides():
    plan = random_plan(captured(transformer), 1)
    model, inputs, loss_fn = transformer()
    with tidemark.session(plan, model) as session:
        loss_fn(model(*inputs)).backward()
        inner = tidemark.report()
    after = session.report()
    assert inner.predicted_peak_bytes == plan.peak_bytes == sum(inner.predicted.values())
    assert inner.measured_peak_bytes == after.measured_peak_bytes > 0
    parameters = sum(p.numel() * 4 for p in model.parameters())
    assert inner.measured_parameter_bytes == inner.measured_gradient_bytes >= parameters
    assert "% of predicted" in str(after)
    assert sum(inner.predicted_by_phase.values()) == inner.predicted_peak_bytes
    assert sum(inner.measured_by_phase.values()) == inner.measured_peak_bytes
    assert "made in forward, or again, at the peak (predicted" in str(after)
    with pytest.raises(tidemark.SessionError, match="no session is active"):
        tidemark.report()


@pytest.mark.parametrize("seed", range(3))
def test_what_the_peak_is_made_of_is_the_predicted_phase_by_phase(seed):
    """Whoever else holds memory in this process was there before."""
    plan = random_plan(captured(transformer), seed)
    gc.collect()
    others = allocator.statistics().allocated_bytes
    model, inputs, loss_fn = transformer()
    stepper = torch.optim.AdamW(model.parameters())
    with tidemark.session(plan, model) as session:
        for step in range(3):
            if step == 1:
                allocator.reset_peaks()
            loss_fn(model(*inputs)).backward()
            stepper.step()
            stepper.zero_grad()
        report = session.report()
    measured = report.measured_by_phase | {"standing": report.measured_by_phase["standing"] - others}
    assert measured["forward"] > 0
    for phase, bytes_ in report.predicted_by_phase.items():
        assert abs(measured[phase] - bytes_) <= 0.03 * report.predicted_peak_bytes, phase


def test_rows_dealt_out_as_unevenly_as_allowed_need_no_more_than_predicted():
    def build():
        torch.manual_seed(0)
        model = ByRule(wide=512)
        model.rule = lambda x: torch.zeros(len(x), dtype=torch.int64)
        return model, (torch.randn(2048, 8),), lambda out: out.square().mean()

    def planned(**most):
        model, inputs, loss_fn = build()
        bounds = {"": tidemark.Routed(total=2048, parts=4, **most)}
        stepper = torch.optim.AdamW(model.parameters())
        graph = tidemark.capture(model, inputs, loss_fn, optimizer=stepper, bounds=bounds, measured=True)
        return random_plan(graph, 0, share=0.0)

    measured = peak_of(build, planned())
    assert measured <= planned(most=2048).peak_bytes


def under_address_space(bytes_):
    """What a process says that installs the allocator with so much address space beyond what PyTorch took."""
    program = f"""
import resource, tidemark, torch
taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + {bytes_}, taken + {bytes_}))
try:
    tidemark.allocator.install()
    print(torch.ones(1 << 20).sum().item())
    torch.empty({bytes_})
except (tidemark.TidemarkError, torch.OutOfMemoryError) as error:
    print(error)
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)


def test_where_address_space_is_limited_so_is_memory():
    said = under_address_space(8 << 30).stdout
    assert "1048576.0" in said and re.search(r"The device has (1\.00 GiB|10[12]\d\.\d\d MiB)", said), said
    assert "(ulimit -v) leaves too little" in under_address_space(256 << 20).stdout


class Noise(nn.Module):
    """Made by a kernel that allocates and draws; those of a dropout do one or the other."""

    def forward(self, x):
        return x * torch.rand_like(x)


def test_memory_that_runs_out_while_noise_is_made_again_leaves_the_generator_as_it_was():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(512, 512), Noise(), nn.Tanh(), nn.Linear(512, 512), Noise(), nn.Tanh())
    inputs, loss_fn = (torch.randn(4096, 512),), lambda out: out.square().mean()
    plan = random_plan(tidemark.capture(model, inputs, loss_fn), 0, share=1.0)

    def backward(context):
        torch.manual_seed(6)
        model.zero_grad()
        with context:
            loss_fn(model(*inputs)).backward()
        return [p.grad.clone() for p in model.parameters()]

    plain = backward(contextlib.nullcontext())
    with tidemark.session(plan, model, host_bytes=4096):  # hardly anything is spilled
        for room in range(0, 30, 3):  # MiB: runs out now here, now there
            loss = loss_fn(model(*inputs))
            state = torch.get_rng_state()
            allocator.empty_cache()
            with allocator.budget(allocator.statistics().reserved_bytes + (room << 20) + (2 << 20)):
                with pytest.raises(torch.OutOfMemoryError):
                    loss.backward()
            assert torch.equal(torch.get_rng_state(), state)
            del loss
    assert all(torch.equal(a, b) for a, b in zip(plain, backward(tidemark.session(plan, model)), strict=True))
