"""A step that is recorded while it runs, and undone.

Thread rule: that of capture.
"""

import torch

from . import measure
from .captured_step import know_residents
from .compiled_code import CompiledCode
from .cost import default_rates
from .fake_recorder import FakeRecorder
from .fake_step import fake_optimizer
from .in_place import put_in_place
from .real_recorder import RealRecorder
from .stand_in import FakeTensors
from .torch_internals import FakeTensorMode
from .undone import Undone


def record_for_real(step, data, rates):
    """The StepLog of a CapturedStep that runs forward and backward on its inputs, and what of it ran compiled; see Undone
    for what is as before. The optimizer runs on fakes, as what it changes would have to be kept twice."""
    frames = step.frames()
    code = CompiledCode(step.model, frames)
    with code, Undone(step) as undone, torch.random.fork_rng(**measure.generators(step.device)):
        warm_up = RealRecorder(frames, step.device, rates, undone.keep)
        recorder = RealRecorder(frames, step.device, rates, undone.keep)
        inputs = [step.inputs] * step.micro_batches
        know_residents(warm_up.log, step.model, inputs, None)
        with frames, warm_up, torch.autograd.graph.saved_tensors_hooks(warm_up.pack, warm_up.unpack):
            step.call_once(frames, step.inputs)
        undone.put_back()
        know_residents(recorder.log, step.model, inputs, None)
        step.run(recorder, inputs, None)
        recorder.settle_costs()
        if step.optimizer is not None:
            _step_on_fakes(step, recorder, data, rates or default_rates(step.device))
    put_in_place(recorder.log)
    return recorder.log, code.met


def _step_on_fakes(step, recorder, data, rates):
    fake_mode = FakeTensorMode()
    fakes = FakeTensors(fake_mode, step.device)
    log = recorder.log
    with fake_mode:
        optimizer = fake_optimizer(step.optimizer, fakes, data, step.device)
        for group in step.optimizer.param_groups:
            for p in group["params"]:
                log.stand_in_for(fakes.of(p), p)
                if p.grad is not None:
                    fakes.of(p).grad = fakes.of(p.grad)
                    log.stand_in_for(fakes.of(p.grad), p.grad)
        know_residents(log, torch.nn.Module(), (), optimizer)
        stepping = FakeRecorder(fake_mode, fakes, recorder.frames, data, rates, False)
        stepping.log, stepping.phase = log, "optimizer"
        with stepping:
            optimizer.step()
        log.bury()
