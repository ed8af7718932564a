"""Loops that take other ways than captured: the session records such a step, plans its path and follows it."""

import warnings

import pytest
import tidemark
import torch
from random_plans import random_plan
from tidemark.graph import Call, Graph, HostLink, Op, Site
from tidemark.paths import Paths
from tidemark.plan_follower import PlanFollower
from tidemark.planning import Plan
from torch import nn
from torch.nn import functional as F
from training import same

LINK = HostLink(1e12, 1e12, 0)


class Forked(nn.Module):
    """Takes another way where its input is negative."""

    def __init__(self, width=48, layers=4):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, x):
        other = x[0, 0].item() < 0
        for layer in self.layers:
            x = x + (torch.tanh(F.silu(layer(x)) * layer(x)) if other else F.gelu(layer(x)))
        return x


def batch(other, rows=512):
    x = torch.randn(rows, 48)
    x[0, 0] = -1 if other else 1
    return x


def train(batches, plan=None, after=None, **arguments):
    torch.manual_seed(0)
    model = Forked()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    session = tidemark.session(plan, model, **arguments) if plan else None
    torch.manual_seed(1)
    seen = []

    def loop():
        for n, x in enumerate(batches):
            loss = model(x).square().mean()
            loss.backward()
            seen.append(loss.detach().clone())
            optimizer.step()
            optimizer.zero_grad()
            if after is not None:
                after(session, n)

    if session is None:
        loop()
    else:
        with session, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loop()
    return seen, [p.detach().clone() for p in model.parameters()], session


def planned(share=0.8, rows=512):
    torch.manual_seed(0)
    model = Forked()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    graph = tidemark.capture(
        model, (batch(False, rows),), lambda out: out.square().mean(), optimizer=optimizer, recorded=True, host_link=LINK
    )
    plan = random_plan(graph, 0, share=share, link=LINK)
    plan.budget_bytes = 2 * graph.keep_all_peak_bytes() + 16 * 2**20
    return plan


def wait(session, _):
    session._changes.join()


def test_plans_of_the_latest_paths_are_kept():
    """A loop may take another path in every step."""

    def graph(number):
        call = Call(f"aten.{number}", Site(0, "", 0, 0), (), 0)
        return Graph("step", [Op("op", 1, [], [], "forward", calls=[call])], [], [], "", "cpu", 1)

    paths = Paths(Plan(graph(0), 0, []))
    for number in range(1, 1000):
        paths.add(graph(number), Plan(graph(number), 0, []))
        paths.wanted(None, (number,), graph(number))
    assert len(paths._known) == 16 and len(paths._led_to) == 256


def test_a_new_path_is_recorded_planned_and_followed():
    plan = planned()
    batches = [batch(n >= 2) for n in range(8)]
    plain, parameters, _ = train(batches)
    seen, trained, session = train(batches, plan, wait)
    assert same(seen, plain) and same(trained, parameters)
    assert session.paths == 1
    assert session.plan is not plan
    assert session.plan.graph.model is plan.graph.model
    assert "planned     1 time(s) again for another path" in str(session.report())


def test_a_path_that_is_known_is_followed_without_another_recording():
    plan = planned()
    batches = [batch(n // 5 % 2 == 1) for n in range(24)]
    recorded = []
    begin = PlanFollower._begin_recording

    def counted(follower):
        recorded.append(1)
        begin(follower)

    plain, parameters, _ = train(batches)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlanFollower, "_begin_recording", counted)
        seen, trained, session = train(batches, plan, wait)
    assert same(seen, plain) and same(trained, parameters)
    assert session.paths >= 3
    assert 1 <= len(recorded) <= 3


def test_without_replanning_nothing_is_recorded():
    plan = planned()
    _, _, session = train([batch(n > 0) for n in range(5)], plan, wait, replan=False)
    assert session.paths == 0 and session.plan is plan
    assert session.counters.off_plan > 0
