"""When a plan is made again for larger loads, and for which: by steps alone."""

import dataclasses

import pytest
from tidemark import replanning
from tidemark.errors import InfeasibleError
from tidemark.graph import Graph, Load, Op, Storage
from tidemark.load_history import WINDOW, LoadHistory, LoadStep, growing, raised
from tidemark.replanning import larger_plan

LOAD = Load("*.mix", 100, 200, 1000)


def history(*steps):
    found = LoadHistory()
    for step in steps:
        found.add(step)
    return found


def told(*rows):
    return [LoadStep({"*.mix": count}, 1) for count in rows]


def test_half_of_the_last_steps_are_enough_and_less_is_not():
    assert history(*told(*[200] * 4, *[300] * 4)).wanted([LOAD])
    assert not history(*told(*[200] * 5, *[300] * 3)).wanted([LOAD])
    assert not history(*told(*[300] * (WINDOW - 1))).wanted([LOAD])  # too few steps yet
    assert not history(*[LoadStep({"*.mix": 300}, 0)] * 8).wanted([LOAD])  # room was there, which costs nothing
    assert not history(*told(*[300] * 8, *[200] * 5)).wanted([LOAD])  # what was before does not count


def test_the_most_rows_that_were_told_are_wanted_and_from_the_median_on():
    assert history(*told(*[100] * 3, 300, 400, 500, 600, 5000)).wanted([LOAD]) == [
        {"*.mix": 500},
        {"*.mix": 600},
        {"*.mix": 1000},  # there cannot be more
    ]
    assert history(*told(*[700] * 8)).wanted([LOAD]) == [{"*.mix": 700}]


def test_loads_that_no_module_tells_are_raised_by_half_where_memory_was_short():
    assert history(*[LoadStep({}, 3)] * 8).wanted([LOAD]) == [{"*.mix": 250}, {"*.mix": 300}]
    assert history(*[LoadStep({}, 3)] * 8).wanted([Load("*.mix", 100, 200, 260)]) == [{"*.mix": 250}, {"*.mix": 260}]
    assert not history(*[LoadStep({}, 0)] * 8).wanted([LOAD])
    assert not history(*[LoadStep({"*.mix": 150}, 3)] * 8).wanted([LOAD])  # it is not for the load


def test_each_load_is_raised_to_its_own_rows():
    steps = [LoadStep({"*.mix": 300 + n, "first": 20}, 1) for n in range(8)]
    wanted = history(*steps).wanted([LOAD, Load("first", 5, 10, 40)])
    assert wanted[0] == {"*.mix": 303, "first": 20} and wanted[-1] == {"*.mix": 307, "first": 20}
    assert len(wanted) == 5


def test_loads_of_which_nothing_is_known_are_left():
    assert growing([LOAD, Load("a", 100, 100, 1000), Load("b", 100, 200, 200)]) == [LOAD]
    assert not history(*told(*[900] * 8)).wanted([Load("*.mix", 200, 200, 1000)])


def test_plans_are_asked_for_less_and_less_often_and_four_times_at_most():
    found, asked = LoadHistory(), []
    for number in range(500):
        found.add(LoadStep({"*.mix": 300}, 1))
        if found.wanted([LOAD]):
            found.ask()
            asked.append(number)
    assert asked == [7, 23, 55, 119]


def test_what_does_not_fit_is_not_wanted_again():
    found = history(*told(*[600] * 8))
    found.limit({"*.mix": 600})
    assert not found.wanted([LOAD])
    for step in told(*[500] * 8):
        found.add(step)
    assert found.wanted([LOAD]) == [{"*.mix": 500}]
    found.limit({"*.mix": 800})
    found.limit({"*.mix": 500})
    assert not found.wanted([LOAD])


def test_a_load_that_did_not_fit_beside_another_is_wanted_without_it():
    other = Load("first", 5, 10, 40)
    found = history(*[LoadStep({"*.mix": 300, "first": 20 + n}, 1) for n in range(8)])
    assert found.wanted([LOAD, other])[-1] == {"*.mix": 300, "first": 27}
    found.limit({"*.mix": 300, "first": 24})
    assert found.wanted([LOAD, other]) == [{"*.mix": 300, "first": 23}]
    for _ in range(8):
        found.add(LoadStep({"*.mix": 600, "first": 8}, 1))
    assert found.wanted([LOAD, other]) == [{"*.mix": 600}]


def graph_of(*storages):
    return Graph("g", [Op("op", 1, [], [0], "forward")], list(storages), [], loads=[LOAD, Load("mask", 10, 10, 10)])


def test_bytes_grow_by_rows():
    graph = graph_of(
        Storage("routed", 1000, module="a.mix.experts.0", bound_bytes=2000, bound_variant=0),
        Storage("same", 500, module="a.mix"),
        Storage("of backward", 100, bound_bytes=301, bound_variant=1),
        Storage("of the step before", 1000, module="a.mix", bound_bytes=2000),
        Storage("masked", 1000, module="mask", bound_bytes=1500, bound_variant=0),
    )
    larger = raised(graph, {"*.mix": 400})
    assert [s.bound_bytes for s in larger.storages] == [4000, None, 703, 4000, 1500]
    assert [s.bytes for s in larger.storages] == [s.bytes for s in graph.storages]
    assert larger.loads == [dataclasses.replace(LOAD, planned=400), graph.loads[1]]
    assert raised(larger, {"*.mix": 800}).storages == raised(graph, {"*.mix": 800}).storages
    assert graph.loads[0] is LOAD and graph.storages[0].bound_bytes == 2000  # values


@pytest.mark.parametrize("fits", [0, 350, 400, 500, 600, 700])
def test_the_largest_plan_that_fits_is_found_in_few_tries(monkeypatch, fits):
    wanted, tried = [{"*.mix": count} for count in (300, 400, 500, 600, 700)], []

    def plan_again(_, rows):
        tried.append(rows["*.mix"])
        if rows["*.mix"] > fits:
            raise InfeasibleError("too much", 0)
        return rows["*.mix"]

    monkeypatch.setattr(replanning, "plan_again", plan_again)
    found = larger_plan(None, wanted)
    rows = [w["*.mix"] for w in wanted]
    assert found.plan == max((r for r in rows if r <= fits), default=None)
    assert found.too_many.get("*.mix") == min((r for r in rows if r > fits), default=None)
    assert tried[0] == 700 and len(tried) <= 4


def test_planning_ends_between_two_tries(monkeypatch):
    monkeypatch.setattr(replanning, "plan_again", lambda *_: pytest.fail("it was over"))
    assert larger_plan(None, [{"*.mix": 300}], lambda: True).plan is None
