"""A step of a loop that is recorded while it trains.

It begins where the model's forward begins, and ends where the next step's does. What autograd saves waits on the host, so
that a step of any path fits where the model's largest layer does. What the loop does between the optimizer's step and
the next forward, as evaluation, is none of the step's.

Thread rule: that of the session.
"""

import torch

from . import allocator
from .captured_step import know_residents
from .frames import Frame
from .grouping import build_graph
from .held_over import hold_over
from .in_place import put_in_place
from .real_recorder import RealRecorder
from .stand_in import fingerprint
from .torch_internals import pop_saved_tensors_hooks, push_saved_tensors_hooks


class LiveRecording:
    """`frames`: the session's ModuleFrames, which are told of Frames of Python's until end()."""

    def __init__(self, model, frames, device):
        self._model = model
        self._frames = frames
        self._device = device
        self._makes_state = False
        self._before = frames.follow(Frame)
        self._recorder = RealRecorder(frames, device, None)
        know_residents(self._recorder.log, model, (), None)
        for path, parameter in model.named_parameters():
            if parameter.grad is not None:
                self._recorder.log.know(parameter.grad, f"{path}.grad", "gradient")
        push_saved_tensors_hooks(self._recorder.pack, self._recorder.unpack)
        self._recorder.__enter__()

    def begin_forward(self):
        self._resume("forward")

    def begin_backward(self, roots):
        """`roots`: what is differentiated."""
        self._resume("backward")
        for root in roots:
            self._recorder.node_ends.watch(root.grad_fn)

    def end_backward(self):
        """Gradients may be clipped, and the like, until the optimizer steps."""
        self._recorder.phase = "optimizer"
        for path, parameter in self._model.named_parameters():
            if parameter.grad is not None:
                self._recorder.log.mark_role(parameter.grad, "gradient", f"{path}.grad")

    def begin_optimizer(self, optimizer):
        know_residents(self._recorder.log, torch.nn.Module(), (), optimizer)
        self._makes_state |= not optimizer.state
        self._resume("optimizer")

    def end_optimizer(self):
        self._recorder.log.bury()
        self._recorder.is_paused = True

    def close(self):
        """Takes the recorder off, whatever became of the step."""
        self._recorder.__exit__(None, None, None)
        pop_saved_tensors_hooks()
        self._frames.follow(self._before)

    def graph(self, like):
        """The step, with what `like`, a Graph of the same loop, says of it. None: it is not one of those that follow, as
        it made an optimizer's state, or had no backward. To be asked for once, behind close()."""
        log = self._recorder.log
        log.bury()
        makes_state = any(s.born >= 0 and s.died is None and log.calls[s.born].phase == "optimizer" for s in log.storages)
        if (self._makes_state and makes_state) or not any(call.phase == "backward" for call in log.calls):
            return None
        self._recorder.settle_costs()
        put_in_place(log)
        graph = build_graph(log, like.name, fingerprint(self._model), like.device, like.micro_batches)
        graph.chunks, graph.host_link, graph.loads = like.chunks, like.host_link, like.loads
        graph.knows_requests = allocator.serves(like.device)
        graph.model = like.model
        hold_over(graph)
        return graph

    def _resume(self, phase):
        self._recorder.phase = phase
        self._recorder.is_paused = False

