"""A step that is captured on fake tensors.

Thread rule: that of capture.
"""

import torch

from . import kernels
from .captured_step import know_residents
from .errors import CaptureError
from .fake_recorder import FakeRecorder
from .in_place import put_in_place
from .left_behind import replace_fakes
from .stand_in import FakeTensors, fake_model
from .torch_internals import FakeTensorMode, TorchDispatchMode, foreach_devices, uncompiled


def record_on_fakes(step, data, rates, describes):
    """The StepLog of a CapturedStep, of which nothing stays in the model."""
    fake_mode = FakeTensorMode()
    fakes = FakeTensors(fake_mode, step.device)
    frames = step.frames()
    warm_up = FakeRecorder(fake_mode, fakes, frames, data.anew(), rates, False)
    recorder = FakeRecorder(fake_mode, fakes, frames, data, rates, describes)
    rng = torch.random.get_rng_state()
    try:
        with uncompiled(), fake_model(step.model, fakes), fake_mode:
            inputs = [fakes.of_tree(step.inputs) for _ in range(step.micro_batches)]
            with frames, warm_up:
                step.call_once(frames, inputs[0])
            optimizer = fake_optimizer(step.optimizer, fakes, data, step.device)
            know_residents(recorder.log, step.model, inputs, optimizer)
            step.run(recorder, inputs, optimizer)
        del inputs, optimizer
    finally:
        torch.random.set_rng_state(rng)
        for seen in (warm_up, recorder):
            seen.fakes = None
        del fakes
        for seen in (warm_up, recorder):
            replace_fakes(seen, _memory(step.model))
    put_in_place(recorder.log)
    return recorder.log


def _memory(model):
    """Where the model lies; None where that is no memory."""
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    return None if device.type == "meta" else device


def _kernels_of(group, device):
    """Where neither is asked for, PyTorch steps whole lists of parameters at once where the device can, but no fakes."""
    if group.get("foreach", False) is not None or group.get("fused") or group.get("differentiable"):
        return {}
    return {"foreach": device in foreach_devices()}


def fake_optimizer(optimizer, fakes, data, device):
    """The same optimizer over the fakes, its state there as after a first step."""
    if optimizer is None:
        return None
    groups = [
        {**g, **_kernels_of(g, device), "params": [fakes.of(p) for p in g["params"]]} for g in optimizer.param_groups
    ]
    try:
        fake = type(optimizer)(groups)
        for group in fake.param_groups:
            for p in group["params"]:
                p.grad = torch.empty_like(p) if p.requires_grad else None
        with _Scalars(data):
            fake.step()
    except (TypeError, AttributeError, KeyError, RuntimeError) as error:
        raise CaptureError(
            f"{type(optimizer).__name__} cannot be captured, as it is not made of parameter groups and stepped without "
            f"a closure ({error}); capture without it, and leave room for its state in the budget"
        ) from error
    for group in fake.param_groups:
        for p in group["params"]:
            p.grad = None
    return fake


class _Scalars(TorchDispatchMode):
    def __init__(self, data):
        super().__init__()
        self._data = data

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if kernels.is_read(func):
            return self._data.number(args[0], False, None)
        return func(*args, **(kwargs or {}))
