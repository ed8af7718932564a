"""From a budget to training within it: the example and two other models, from everything kept to the least there is."""

import _thread
import contextlib
import dataclasses
import gc
import hashlib
import io
import os
import pathlib
import runpy
import signal
import subprocess
import sys
import threading
import time

import model as example
import pytest
import tidemark
import torch
from tidemark import allocator
from tidemark.requirements import check_torch
from torch import nn

from models import ResNet, transformer


def decoder():
    torch.manual_seed(0)
    config = example.Config(layers=2)
    tokens = torch.randint(0, config.vocabulary, (6, 48))
    bounds = {"*mlp": tidemark.Routed(total=6 * 48 * config.top_k, parts=config.experts)}  # as expected, with no most
    return example.Decoder(config), (tokens,), lambda out: example.loss_of(out, tokens), bounds


def resnet():
    torch.manual_seed(0)
    target = torch.arange(16) % 10
    loss_fn = lambda out: nn.functional.cross_entropy(out, target)  # noqa: E731
    return ResNet(16, 4), (torch.randn(16, 3, 48, 48),), loss_fn, None


def encoder():
    torch.manual_seed(0)
    layers = [nn.TransformerEncoderLayer(96, 4, 384, 0.1, batch_first=True, norm_first=True) for _ in range(6)]
    return nn.Sequential(*layers), (torch.randn(8, 48, 96),), lambda out: out.square().mean(), None


BUILDS = {"decoder": decoder, "resnet": resnet, "encoder": encoder}


def train(build, context, steps):
    """(loss, digest of all gradients) of every step, and the allocator's statistics of all steps but the first."""
    gc.collect()
    model, inputs, loss_fn, _ = build()
    stepper = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(1)
    seen = []
    with context(model):
        for step in range(steps):
            if step == 1:
                allocator.reset_peaks()
            loss = loss_fn(model(*inputs))
            loss.backward()
            digest = hashlib.sha256()
            for p in model.parameters():
                digest.update(memoryview(p.grad.numpy()).cast("B"))
            stepper.step()
            seen.append((loss.item(), digest.hexdigest()))
            del loss
            stepper.zero_grad()
    return seen, allocator.statistics()


def captured(build):
    model, inputs, loss_fn, bounds = build()
    stepper = torch.optim.AdamW(model.parameters())
    return tidemark.capture(model, inputs, loss_fn, optimizer=stepper, bounds=bounds, measured=True)


@pytest.mark.parametrize("name", BUILDS)
def test_same_bits_within_every_budget(name):
    build, steps = BUILDS[name], 20 if name == "decoder" else 6
    reference, _ = train(build, lambda _: contextlib.nullcontext(), steps)
    graph = captured(build)
    with pytest.raises(tidemark.InfeasibleError) as refusal:
        tidemark.plan(graph, graph.keep_all_peak_bytes() // 8)
    smallest = refusal.value.smallest_bytes
    everything = int(1.01 * graph.keep_all_peak_bytes()) + (6 << 20)
    assert 0 < smallest < 0.95 * everything
    recomputed = []
    for budget in (everything, (2 * everything + smallest) // 3, (everything + 2 * smallest) // 3, smallest):
        plan = tidemark.plan(graph, budget)
        sessions = []

        def context(model, plan=plan, sessions=sessions):
            sessions.append(tidemark.session(plan, model))
            return sessions[0]

        refused = allocator.statistics().out_of_memory_count
        planned, statistics = train(build, context, steps)
        report = sessions[0].report()
        assert planned == reference
        assert report.measured_reserved_bytes <= budget
        assert abs(report.measured_peak_bytes - plan.peak_bytes) <= 0.03 * plan.peak_bytes
        assert report.off_plan == 0
        assert statistics.out_of_memory_count == refused
        recomputed.append(report.recomputed)
    assert recomputed[0] == 0 and recomputed[-1] == max(recomputed) > 0


def test_refused_before_the_first_step_with_what_would_do():
    graph = captured(encoder)
    with pytest.raises(tidemark.InfeasibleError, match="does not fit 2.00 MiB: no plan fits less than .* would do"):
        tidemark.plan(graph, "2MiB")


def wide_encoder():
    torch.manual_seed(0)
    layers = [nn.TransformerEncoderLayer(64, 4, 256, batch_first=True) for _ in range(8)]
    model, inputs = nn.Sequential(*layers), (torch.randn(32, 128, 64),)
    return tidemark.capture(model, inputs, lambda out: out.square().mean())


@pytest.mark.whole_search
def test_a_time_limit_ends_the_search_with_a_plan():
    graph = wide_encoder()
    budget = graph.keep_all_peak_bytes() * 3 // 4
    plan = tidemark.plan(graph, budget, time_limit=100)
    assert not plan.stopped
    assert plan.file == tidemark.plan(graph, budget).file
    hasty = tidemark.plan(graph, budget, time_limit=1e-9)
    assert hasty.peak_bytes <= budget and hasty.added_cost_percent >= plan.added_cost_percent
    assert hasty.stopped and len(hasty.schedule) > len(graph.ops)
    with pytest.raises(tidemark.InfeasibleError) as refusal:
        tidemark.plan(graph, graph.keep_all_peak_bytes() // 50)
    with pytest.raises(tidemark.TidemarkError, match="was found in 1e-09 s; give it more time"):
        tidemark.plan(graph, refusal.value.smallest_bytes, time_limit=1e-9)
    for wrong in (0, -1, float("nan")):
        with pytest.raises(tidemark.TidemarkError, match="time limit"):
            tidemark.plan(graph, budget, time_limit=wrong)


@pytest.mark.whole_search
def test_progress_is_told_to_a_function_or_drawn(monkeypatch):
    graph = wide_encoder()
    budget = graph.keep_all_peak_bytes() * 3 // 4
    told = []
    tidemark.plan(graph, budget, progress=told.append)
    assert told == sorted(told) and told[-1] == 1
    monkeypatch.setattr("tidemark.plan_watch._FIRST", 0)
    for progress, drawn in ((True, True), (False, False), (None, False)):
        stream = io.StringIO()
        monkeypatch.setattr(sys, "stderr", stream)
        tidemark.plan(graph, budget, progress=progress)
        assert ("planning [" in stream.getvalue()) == drawn

    def fails(_):
        raise ValueError("not mine")

    with pytest.raises(ValueError, match="not mine"):
        tidemark.plan(graph, budget, progress=fails)


@pytest.fixture
def interruptible():
    """Also where what started the tests ignores interrupts, as shells do in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_the_search():
    graph = wide_encoder()
    text = graph.to_json((1 << 40, 0))
    threading.Timer(0.3, _thread.interrupt_main).start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        tidemark.planning.solve(text, graph.keep_all_peak_bytes() * 6 // 10, effort_percent=1_000_000)
    assert time.monotonic() - begin < 10


@pytest.mark.parametrize("size", ["12", "1.5B", "-4MiB", "4 mib", 0, -1, True, 1.5, None])
def test_what_is_no_size_is_refused(size):
    with pytest.raises(tidemark.TidemarkError, match="is not a size|is no share|a budget must be given"):
        tidemark.plan(tidemark.capture(*transformer(layers=1)), size)


def test_wrong_device_is_refused():
    with pytest.raises(tidemark.TidemarkError, match="captured on 'cpu'; a plan for 'cuda'"):
        tidemark.plan(tidemark.capture(*transformer(layers=1)), "1GiB", device="cuda")


@pytest.mark.parametrize("version", ["1.13.1", "2.5.1", "2.16.0", "3.0.0", "0.4", "unknown"])
def test_another_pytorch_is_refused_with_what_would_do(version):
    said = rf"needs PyTorch 2.6 to 2.15, and this is {version}; pip install 'torch>=2.6,<2.16' gets one"
    with pytest.raises(ImportError, match=said):
        check_torch(version)


def test_what_was_built_for_another_pytorch_is_refused_with_what_would_do():
    with pytest.raises(ImportError, match="for PyTorch 2.9.1, and this is 2.10.0; install its wheel for 2.10, or"):
        check_torch("2.10.0", True, ("2.9.1", True))
    with pytest.raises(ImportError, match="2.6.0.cpu with _GLIBCXX_USE_CXX11_ABI=1, and this is 2.6.0 with 0;"):
        check_torch("2.6.0", False, ("2.6.0+cpu", True))
    check_torch("2.9.0+cu128", True, ("2.9.1+cpu", True))
    check_torch("2.9.1", True)
    check_torch(torch.__version__, torch.compiled_with_cxx11_abi(), tidemark.library.torch_built_for())


def test_pip_and_cmake_are_told_the_same_pytorch(monkeypatch):
    """Of the building Python: CMake asks the file by its path, pip through pyproject.toml."""
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")  # is set for the building process
    place = pathlib.Path(__file__).resolve().parents[2] / "integrations" / "pytorch"
    said = subprocess.run([sys.executable, place / "building_torch.py"], capture_output=True, text=True, check=True)
    folder = str(pathlib.Path(torch.__file__).parent)
    assert said.stdout.split() == [folder, torch.__version__, str(int(torch.compiled_with_cxx11_abi()))]
    building = runpy.run_path(str(place / "building_torch.py"))
    minor = ".".join(torch.__version__.split(".")[:2])
    assert building["dynamic_metadata"]({"of": "0.1.0"}, {}) == {
        "version": f"0.1.0+torch{minor}",
        "dependencies": [f"torch=={minor}.*"],
    }


@pytest.mark.parametrize(
    ("stub", "said"),
    [
        ("__version__ = '2.16.0'", "tidemark needs PyTorch 2.6 to 2.15, and this is 2.16.0; pip install"),
        ("raise ImportError('no torch')", "it cannot be imported (no torch): pip install 'torch>=2.6,<2.16' scikit"),
    ],
)
def test_a_build_without_a_right_pytorch_is_refused_in_one_line(tmp_path, stub, said):
    (tmp_path / "torch.py").write_text(stub)
    place = pathlib.Path(__file__).resolve().parents[2] / "integrations" / "pytorch" / "building_torch.py"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    refused = subprocess.run([sys.executable, place], capture_output=True, text=True, env=environment)
    assert refused.returncode == 1 and refused.stdout == ""
    assert said in refused.stderr and refused.stderr.count("\n") == 1


def test_a_broken_back_end_does_not_stop_a_build(tmp_path):
    """As torch_npu is without CANN's libraries: PyTorch loads it as it is imported, and fails with it."""
    (tmp_path / "broken_backend.py").write_text("raise ImportError('libhccl.so')")
    (tmp_path / "broken-1.dist-info").mkdir()
    (tmp_path / "broken-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (tmp_path / "broken-1.dist-info" / "entry_points.txt").write_text("[torch.backends]\nbroken = broken_backend:load\n")
    place = pathlib.Path(__file__).resolve().parents[2] / "integrations" / "pytorch" / "building_torch.py"
    environment = {name: value for name, value in os.environ.items() if name != "TORCH_DEVICE_BACKEND_AUTOLOAD"}
    environment["PYTHONPATH"] = str(tmp_path)
    assert subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, env=environment).returncode == 1
    said = subprocess.run([sys.executable, place], capture_output=True, text=True, env=environment, check=True)
    assert torch.__version__ in said.stdout


def test_a_plan_that_keeps_everything_allocates_nothing_of_its_own():
    """Of a step that was not measured, and is limited by nothing: its session serves no addresses, and watches nothing."""
    model, inputs, loss_fn, _ = encoder()
    plan = dataclasses.replace(tidemark.plan(tidemark.capture(model, inputs, loss_fn), "1GiB"), budget_bytes=0)
    assert plan.keeps_all

    def count(context):
        before = allocator.statistics()
        _, after = train(encoder, context, steps=4)
        return after.allocations_total - before.allocations_total, after.allocated_peak_bytes - before.allocated_bytes

    count(lambda _: contextlib.nullcontext())
    assert count(lambda model: tidemark.session(plan, model)) == count(lambda _: contextlib.nullcontext())
