"""The MindSpeed feature, `--tidemark-plan FILE` and `--tidemark-budget SIZE`. MindSpeed and Megatron-LM are small stand-ins here, with the interface that their
sources have: MindSpeedFeature of mindspeed/features_manager/feature.py, FEATURES_LIST and the calls over it of
mindspeed/features_manager/features_manager.py, register_patch() and what the name of a patch means of mindspeed/patch_utils.py
(github.com/Ascend/MindSpeed), and train() and train_step() of megatron/training/training.py (github.com/NVIDIA/Megatron-LM). The sessions are real."""

import argparse
import importlib
import os
import pathlib
import sys
import types

import pytest
import tidemark
import torch
from megatron_modules import TRAINING, Wrapped, plain_training, stand_in
from random_plans import random_plan

from models import transformer

HOME = pathlib.Path(__file__).resolve().parents[2] / "integrations"


class Feature:
    def __init__(self, feature_name, optimization_level=2):
        self.feature_name = feature_name.strip().replace("-", "_")
        self.optimization_level = optimization_level

    def register_args(self, parser):
        pass

    def validate_args(self, args):
        pass

    def register_patches(self, patch_manager, args):
        raise NotImplementedError


class PatchManager:
    """A function whose name ends in `wrapper` is put around the patched one; any other stands in its place."""

    def __init__(self):
        self.patches = []

    def register_patch(self, name, new=None, force_patch=False, create_dummy=False):
        self.patches.append((name, new))

    def apply_patches(self):
        for name, new in self.patches:
            module, _, function = name.rpartition(".")
            module = sys.modules[module]
            wraps = new.__name__.endswith(("wrapper", "decorator"))
            setattr(module, function, new(getattr(module, function)) if wraps else new)


class Job:
    """A MindSpeed job on this command line, to the point where training begins."""

    def __init__(self, feature_module, megatron, *argv):
        self.manager = types.SimpleNamespace(FEATURES_LIST=[])
        self.patches = PatchManager()
        self.megatron = megatron
        feature_module.register(self.manager)
        feature_module.register(self.manager)
        assert len(self.manager.FEATURES_LIST) == 1
        parser = argparse.ArgumentParser()
        for rival in ("--swap-attention", "--memory-fragmentation"):
            parser.add_argument(rival, action="store_true")
        for feature in self.manager.FEATURES_LIST:
            feature.register_args(parser)
        self.args = parser.parse_args(argv)
        self.args.rank = 3
        megatron["megatron.training"].get_args = lambda: self.args
        for feature in self.manager.FEATURES_LIST:
            feature.validate_args(self.args)
        for feature in self.manager.FEATURES_LIST:
            feature.register_patches(self.patches, self.args)
        self.patches.apply_patches()

    def train(self, model, *args):
        return self.megatron[TRAINING].train(_forward_step, model, *args)


def _forward_step(iterator, model):
    inputs, loss_fn = next(iterator)
    return loss_fn(model(*inputs))


@pytest.fixture
def megatron(monkeypatch):
    names = "mindspeed", "mindspeed.features_manager", "mindspeed.features_manager.feature", "megatron", "megatron.core"
    modules = {name: types.ModuleType(name) for name in names}
    modules["mindspeed.features_manager.feature"].MindSpeedFeature = Feature
    modules["megatron.core"].parallel_state = types.SimpleNamespace(get_pipeline_model_parallel_rank=lambda: 1)
    stand_in(plain_training(), modules.__setitem__)
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return modules


@pytest.fixture
def feature(megatron, monkeypatch):
    names = "tidemark_mindspeed", "tidemark_megatron"
    for name in names:
        monkeypatch.syspath_prepend(str(HOME / name.removeprefix("tidemark_")))
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module(names[0])
    for name in names:
        sys.modules.pop(name, None)


def _parts():
    model, inputs, loss_fn = transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    return model, optimizer, inputs, loss_fn


@pytest.fixture(scope="module")
def plan():
    model, optimizer, inputs, loss_fn = _parts()
    graph = tidemark.capture(model, inputs, loss_fn, optimizer=optimizer)
    return random_plan(graph, 1, share=0.9)


@pytest.fixture
def plan_of(tmp_path, plan):
    def save(name):
        plan.save(tmp_path / name)
        return str(tmp_path / name)

    return save


def _run(job, wrap=lambda model: [Wrapped(Wrapped(model))]):
    torch.manual_seed(5)
    model, optimizer, inputs, loss_fn = _parts()
    torch.manual_seed(6)
    return job.train(wrap(model), optimizer, iter([(inputs, loss_fn)] * 3), 3)


def test_a_job_trains_by_its_plan_with_the_same_losses(feature, megatron, plan_of, sessions):
    name = "plan-{rank}-of-stage-{stage}.json"
    path = plan_of(name.format(rank=3, stage=1))
    reference = _run(Job(feature, megatron))
    assert _run(Job(feature, megatron, "--tidemark-plan", os.path.join(os.path.dirname(path), name))) == reference
    (session,) = sessions
    assert session.counters.recomputed > 0 and session.counters.micro_batches == 3 and session.counters.off_plan == 0


def test_a_job_trains_within_a_budget_with_the_same_losses(feature, megatron, sessions):
    reference = _run(Job(feature, megatron))
    assert _run(Job(feature, megatron, "--tidemark-budget", "90%")) == reference
    (session,) = sessions
    assert session.counters.micro_batches == 1  # behind the step that makes the optimizer's state, and the recorded one
    job = Job(feature, megatron, "--tidemark-budget", "1MiB")
    with pytest.raises(SystemExit):
        _run(job)


@pytest.mark.parametrize("shim, is_used, changes", ((object(), False, 1), (object(), True, 0), (None, False, 0)))
def test_the_npu_is_served_where_it_can_be(feature, megatron, monkeypatch, shim, is_used, changes):
    """torch_npu is a stand-in."""
    changed = []
    npu = types.SimpleNamespace(
        is_initialized=lambda: is_used, memory=types.SimpleNamespace(change_current_allocator=changed.append)
    )
    monkeypatch.setitem(sys.modules, "torch_npu", types.SimpleNamespace(npu=npu))
    monkeypatch.setattr(tidemark.library, "npu_shim", lambda: shim)
    monkeypatch.setattr(tidemark.allocator, "npu", lambda: "Tidemark's")
    Job(feature, megatron)
    assert changed == []
    Job(feature, megatron, "--tidemark-budget", "1GiB")
    assert changed == ["Tidemark's"] * changes


def test_a_job_without_a_plan_is_left_alone(feature, megatron, sessions):
    job = Job(feature, megatron)
    assert job.patches.patches == [] and len(_run(job)) == 3 and sessions == []


def _refusal(capsys, body):
    with pytest.raises(SystemExit) as refused:
        body()
    said = capsys.readouterr().err
    assert refused.value.code == 2 and said.count("\n") == 1 and ": error: --tidemark-plan: " in said
    return said


def test_what_is_wrong_is_refused_in_one_line_before_training(feature, megatron, plan_of, tmp_path, capsys):
    path = plan_of("plan.json")
    (tmp_path / "none.json").write_text('{"format": 1,\n')

    def said(*argv):
        return _refusal(capsys, lambda: Job(feature, megatron, *argv))

    assert "no.json: cannot read: No such file" in said("--tidemark-plan", str(tmp_path / "no.json"))
    assert "none.json" in said("--tidemark-plan", str(tmp_path / "none.json"))
    assert "{rank} or {stage}" in said("--tidemark-plan", "plan-{host}.json")
    assert "{rank} or {stage}" in said("--tidemark-plan", "plan-{.json")
    for rival in ("--swap-attention", "--memory-fragmentation"):
        assert rival in said("--tidemark-plan", path, rival)


def test_a_model_that_the_plan_is_not_for_is_refused(feature, megatron, plan_of, capsys):
    job = Job(feature, megatron, "--tidemark-plan", plan_of("plan.json"))
    other = [torch.nn.Linear(3, 3)]
    assert "the parameters of this Linear are others" in _refusal(capsys, lambda: _run(job, lambda model: other))
    assert "the parameters of this ModuleList are others" in _refusal(capsys, lambda: _run(job, lambda model: [model, model]))
    assert tidemark.running._active is None  # no session was left behind
    stage = Job(feature, megatron, "--tidemark-plan", "/no/plan-{stage}.json")
    assert "/no/plan-1.json: cannot read: No such file" in _refusal(capsys, lambda: _run(stage))
