"""A step of a loop that is recorded while it trains.

It begins where the model's forward begins, and ends where the next step's does. What autograd saves waits on the host, so
that a step of any path fits where the model's largest layer does. What the loop does between the optimizer's step and
the next forward, as evaluation, is none of the step's. What the recorder cannot see ends the recording, and not the step.

Thread rule: that of the session.
"""

import collections
import contextlib

import torch

from .backward_calls import is_within_forward
from .captured_step import know_residents
from .frames import Frame
from .grouping import build_graph
from .held_over import hold_over
from .in_place import put_in_place
from .real_recorder import RealRecorder
from .saved_hooks import pop_if_on_top
from .stand_in import fingerprint
from .torch_internals import push_saved_tensors_hooks


class LiveRecording:
    """`frames`: the session's ModuleFrames, which are told of Frames of Python's until end()."""

    def __init__(self, model, frames, device):
        self._model = model
        self._frames = frames
        self._device = device
        self._makes_state = self._had_state = False
        self._backwards = []  # ranges of calls
        self._has_failed = False  # a part of the step
        self._stepping = 0  # optimizers
        self._has_stepped = False  # one of the model's
        self.goes_on = False  # with a forward behind an optimizer's step
        self._before = frames.follow(Frame)
        self._recorder = RealRecorder(frames, device, None, is_forgiving=True)
        with self._forgiving():
            know_residents(self._recorder.log, model, (), None)
            for path, parameter in model.named_parameters():
                if parameter.grad is not None:
                    self._recorder.log.know(parameter.grad, f"{path}.grad", "gradient")
        push_saved_tensors_hooks(self._recorder.pack, self._recorder.unpack)
        self._recorder.__enter__()

    @property
    def failure(self):
        """The exception that ended the recording before the step's end, or None."""
        return self._recorder.failure

    @property
    def has_failed(self):
        """Whether a part of the step has, and it is no whole one. To be asked behind end()."""
        return self._has_failed or self._stepping > 0

    @contextlib.contextmanager
    def _forgiving(self):
        try:
            yield
        except Exception as error:
            self._recorder.give_up(error)

    def begin_forward(self):
        self.goes_on |= self._has_stepped
        self._resume("forward")

    def fail_forward(self):
        self._has_failed = True

    @contextlib.contextmanager
    def backward(self, args, kwargs):
        """Around torch.autograd.backward() or grad(), which has these arguments. Gradients may be clipped, and the like,
        until the optimizer steps; what is differentiated in forward, or to be differentiated again, is part of forward."""
        is_within = self._recorder.phase == "forward" and is_within_forward(self._frames, kwargs)
        self._resume("backward")
        began = len(self._recorder.log.calls)
        self._frames.is_open = False
        with self._forgiving():
            for root in _roots(args, kwargs):
                self._recorder.node_ends.watch(root.grad_fn)
        try:
            yield
        except BaseException:
            self._has_failed = True
            raise
        finally:
            self._recorder.phase = "forward" if is_within else "optimizer"
            self._backwards.append(range(began, len(self._recorder.log.calls)))
            with self._forgiving():
                self._mark_gradients()

    def _mark_gradients(self):
        for path, parameter in self._model.named_parameters():
            if parameter.grad is not None and not self._recorder.is_over:
                self._recorder.log.mark_role(parameter.grad, "gradient", f"{path}.grad")

    def begin_optimizer(self, optimizer):
        self._stepping += 1
        with self._forgiving():
            know_residents(self._recorder.log, torch.nn.Module(), (), optimizer)
        self._had_state = _has_state(optimizer)
        self._resume("optimizer")

    def end_optimizer(self, optimizer):
        self._stepping -= 1
        ours = {id(p) for p in self._model.parameters()}
        self._has_stepped |= any(id(p) in ours for group in optimizer.param_groups for p in group["params"])
        self._makes_state |= not self._had_state and _has_state(optimizer)
        self._recorder.log.bury()
        self._recorder.is_paused = True

    def close(self, put_instead=lambda: None):
        """Takes the recorder off, whatever became of the step. `put_instead()` may put another mode where it stood.
        Returns None or, where the loop has hooks of its own on top of the recorder's, its pack: to be popped
        when those have gone; it is harmless meanwhile."""
        self._recorder.leave(put_instead)
        self._frames.follow(self._before)
        pack = self._recorder.pack
        return None if pop_if_on_top(pack) else pack

    def end(self):
        """The step is over."""
        with self._forgiving():
            self._recorder.log.end()

    def held_storages(self):
        """Of what the step has seen and is there yet: the model's and the optimizer's, and others, as the batch and gradients.
        To be asked behind end()."""
        standing, passing = [], []
        for seen in self._recorder.log.storages:
            storage = None if seen.ref.expired() else torch.UntypedStorage._new_with_weak_ptr(seen.ref.cdata)
            if storage is not None and storage.device.type == self._device:
                (standing if seen.role in ("parameter", "optimizer_state") else passing).append(storage)
        return standing, passing

    def has_made_state(self):
        """Whether an optimizer made its state, so that the step is not like those that follow."""
        return self._makes_state

    def graph(self, name, device, micro_batches):
        """A Graph of the step, or None: it had no backward, failed, or could not be seen. To be asked for once, behind
        end()."""
        if self.failure is not None or self.has_failed:
            return None
        with self._forgiving():
            return self._graph(name, device, micro_batches)
        return None

    def _graph(self, name, device, micro_batches):
        log = self._recorder.log
        if not any(call.phase == "backward" for call in log.calls):
            return None
        self._recorder.settle_costs()
        self._number_backwards()
        put_in_place(log)
        graph = build_graph(log, name, fingerprint(self._model), device, micro_batches)
        hold_over(graph)
        return graph

    def _number_backwards(self):
        """A backward is of the micro-batch whose saved tensors it asks for most; where forwards of others came in between, it is
        not that of the last forward."""
        log = self._recorder.log
        asked = [(use, save.site.micro_batch) for save in log.saves for use in save.uses]
        for calls in self._backwards:
            batches = collections.Counter(batch for use, batch in asked if use in calls)
            for c in calls if batches else ():
                log.calls[c].micro_batch = batches.most_common(1)[0][0]

    def _resume(self, phase):
        self._recorder.phase = phase
        self._recorder.is_paused = False


def _has_state(optimizer):
    return any(isinstance(value, torch.Tensor) for state in optimizer.state.values() for value in state.values())


def _roots(args, kwargs):
    """What backward() or grad() differentiates."""
    given = args[0] if args else kwargs.get("tensors", kwargs.get("outputs", ()))
    return [given] if isinstance(given, torch.Tensor) else [t for t in given if isinstance(t, torch.Tensor)]
