"""What may become of a step that a session records while it trains: it fails in part, makes what cannot be recorded, or
has modes and hooks of the loop's own around it. The loop goes on, to the same bits, and half a step is never planned."""

import contextlib
import warnings

import pytest
import tidemark
import torch
from test_paths import Forked, batch, planned
from tidemark.paths import Paths
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack
from torch.utils.flop_counter import FlopCounterMode
from training import same

RECORDED = 2  # the step behind the first that departs


class Loop:
    """Each step takes the path that was not captured, but for the first."""

    def __init__(self, build=Forked):
        torch.manual_seed(0)
        self.model = build()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-2)
        self.losses, self.live = [], []

    def batch(self, n):
        torch.manual_seed(n)
        return batch(n > 0)

    def step(self, n):
        loss = self.model(self.batch(n)).square().mean()
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.detach().clone())

    def run(self, steps, session=None):
        with contextlib.nullcontext() if session is None else session, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for n in range(steps):
                with contextlib.suppress(KeyError):
                    self.step(n)
                self.optimizer.zero_grad()
                if session is not None:
                    self.live.append(session._follower.live is not None)
                    session._changes.join()
        return self.losses + [p.detach().clone() for p in self.model.parameters()]


def trained(loop, steps=7, plan=None):
    """The session of the loop, which is as without one and leaves nothing behind."""
    plan = planned() if plan is None else plan
    plain = loop().run(steps)
    watched = loop()
    session = tidemark.session(plan, watched.model)
    assert same(watched.run(steps, session), plain)
    assert _get_current_dispatch_mode_stack() == []
    assert tidemark.library.engine().top_pack_hook() is None
    return session, watched


class FailsInBackward(Loop):
    def batch(self, n):
        x = super().batch(n)
        return x.requires_grad_() if n == RECORDED else x

    def step(self, n):
        if n != RECORDED:
            return super().step(n)

        def fail(_):
            raise KeyError

        with self.model.layers[2].register_forward_hook(lambda *given: given[2].register_hook(fail) and None):
            return super().step(n)


class FailsInForward(Loop):
    def step(self, n):
        def fail(*_):
            raise KeyError

        hook = self.model.layers[3].register_forward_hook(fail) if n == RECORDED else contextlib.nullcontext()
        with hook:
            return super().step(n)


class FailsInTheOptimizer(Loop):
    def step(self, n):
        def fail(*_):
            raise KeyError

        hook = self.optimizer.register_step_pre_hook(fail) if n == RECORDED else contextlib.nullcontext()
        with hook:
            return super().step(n)


class PassesTheOptimizerOver(Loop):
    """As torch.amp.GradScaler where gradients overflow."""

    def step(self, n):
        if n != RECORDED:
            return super().step(n)
        loss = self.model(self.batch(n)).square().mean()
        loss.backward()
        self.losses.append(loss.detach().clone())


@pytest.mark.parametrize("loop", [FailsInBackward, FailsInForward, FailsInTheOptimizer, PassesTheOptimizerOver])
def test_half_a_step_is_recorded_again(loop):
    session, watched = trained(loop)
    assert watched.live[RECORDED : RECORDED + 3] == [True, True, False]
    assert session.paths == 1
    phases = {op.phase for op in session.plan.graph.ops}
    assert phases == {"forward", "backward", "optimizer"} and session.plan.graph.steps_parameters()
    backward = [op for op in session.plan.graph.ops if op.phase == "backward"]
    whole, _ = trained(Loop)
    assert len(backward) == len([op for op in whole.plan.graph.ops if op.phase == "backward"])


class NeverSteps(Loop):
    def step(self, n):
        if n < RECORDED:
            return super().step(n)
        self.model(self.batch(n)).square().mean().backward()


def test_it_is_not_recorded_for_ever():
    session, watched = trained(NeverSteps, steps=9)
    assert session.paths == 0
    assert sum(watched.live) == 4


class Sparse(Forked):
    """The other way multiplies by a sparse matrix."""

    def forward(self, x):
        if x[0, 0].item() > 0:
            return super().forward(x)
        y = torch.sparse.mm(torch.eye(len(x)).to_sparse(), self.layers[0](x))
        return torch.tanh(super().forward(y)) * y


def test_what_cannot_be_recorded_does_not_reach_the_loop():
    with pytest.MonkeyPatch.context() as patch:
        said = []
        patch.setattr(tidemark.plan_changes.PlanChanges, "_warn", staticmethod(said.append))
        session, watched = trained(lambda: Loop(Sparse))
    assert watched.live[RECORDED] and session.paths == 0
    assert said == [
        "a step that departs from the plan cannot be recorded (a tensor of shape (512, 512) is torch.sparse_coo, which "
        "cannot be captured; capture the step with dense tensors), and its path is not planned"
    ]


@pytest.mark.parametrize("name", ["_begun", "_outputs", "_pack", "_tell_of_changes"])
def test_a_fault_of_the_recorders_own_does_not_reach_the_loop(name, monkeypatch):
    recorder = tidemark.real_recorder.RealRecorder
    calls, own = [], getattr(recorder, name) if name != "_pack" else tidemark.step_recorder.StepRecorder._pack

    def fails(*args):
        calls.append(1)
        if len(calls) == 9:
            raise ZeroDivisionError
        return own(*args)

    plan = planned()
    monkeypatch.setattr(tidemark.step_recorder.StepRecorder if name == "_pack" else recorder, name, fails)
    session, watched = trained(Loop, steps=5, plan=plan)
    assert len(calls) == 9 and session.paths == 0 and watched.live[RECORDED]


class Counted(Loop):
    """Within a mode of the loop's own, in the steps from `since` on."""

    since = 0

    def step(self, n):
        with FlopCounterMode(display=False) if n >= self.since else contextlib.nullcontext():
            before = _get_current_dispatch_mode_stack()[-1:]
            super().step(n)
            assert n < self.since or _get_current_dispatch_mode_stack()[-1:] == before


class CountedLater(Counted):
    since = RECORDED + 1  # where the recording ends


def test_a_step_within_a_mode_of_the_loops_is_not_recorded():
    session, watched = trained(Counted)
    assert session.paths == 0 and not any(watched.live)


def test_a_recording_ends_beneath_a_mode_of_the_loops():
    was_in_mode = torch.utils._python_dispatch.is_in_torch_dispatch_mode()
    session, watched = trained(CountedLater)
    assert session.paths == 1 and watched.live[RECORDED]
    assert torch.utils._python_dispatch.is_in_torch_dispatch_mode() == was_in_mode


class HookedLater(Loop):
    """Within hooks of the loop's own for saved tensors, in the steps behind the recorded one."""

    def step(self, n):
        hooks = torch.autograd.graph.save_on_cpu() if n in (RECORDED + 1, RECORDED + 2) else contextlib.nullcontext()
        with hooks:
            super().step(n)


def test_a_recording_ends_beneath_hooks_of_the_loops():
    session, watched = trained(HookedLater)
    assert session.paths == 1 and watched.live[RECORDED]


class LeftWithin(Loop):
    def run(self, steps, session=None):
        if session is None:
            return super().run(steps)
        mode = FlopCounterMode(display=False)
        with contextlib.ExitStack() as undo:
            undo.callback(lambda: mode.__exit__(None, None, None))
            trained = super().run(steps, Around(session, mode.__enter__))
        return trained


class Around:
    """A session that is left with a mode of the loop's own on top."""

    def __init__(self, session, at_end):
        self._session, self._at_end = session, at_end

    def __enter__(self):
        return self._session.__enter__()

    def __exit__(self, *error):
        self._at_end()
        return self._session.__exit__(*error)

    def __getattr__(self, name):
        return getattr(self._session, name)


def test_a_session_is_left_while_it_records_and_a_mode_is_on_top():
    _, watched = trained(LeftWithin, steps=RECORDED + 1)
    assert watched.live[RECORDED]


def test_a_step_that_may_be_recorded_is_not_measured():
    loop, plan = Loop(), planned()
    with tidemark.session(plan, loop.model) as session, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in range(2):
            with tidemark.measured_step():
                loop.step(n)
        assert session.records_a_step()  # the one that comes
        with pytest.raises(tidemark.SessionError, match="measure a later one"), tidemark.measured_step():
            pytest.fail("it is measured")
        loop.step(2)
        assert session._follower.live is not None and session.records_a_step()


def test_a_step_that_was_recorded_after_all_is_not_measured(monkeypatch):
    loop, plan = Loop(), planned()
    monkeypatch.setattr(Paths, "end_step", lambda *_: (None, True))  # as one that spilled
    with tidemark.session(plan, loop.model):
        loop.batch = lambda n: batch(False)
        loop.step(0)
        with pytest.raises(tidemark.SessionError, match="measure a later one"), tidemark.measured_step():
            loop.step(1)


def test_nothing_else_is_recorded_within_a_session():
    loop, plan = Loop(), planned()
    with tidemark.session(plan, loop.model):
        with pytest.raises(tidemark.SessionError, match="within an active session"), tidemark.record(loop.model):
            pytest.fail("it is recorded")
        with pytest.raises(tidemark.SessionError, match="within an active session"):
            tidemark.capture(loop.model, (loop.batch(0),), lambda out: out.square().mean(), recorded=True)
        loop.step(0)
