"""Pictures of a step: what they draw is what the planner and the allocator counted, and any browser shows it."""

import dataclasses
import re
import xml.etree.ElementTree as ElementTree

import pytest
import tidemark
from random_plans import random_plan, swapped
from test_fit import batch, layers, mean_square, sgd
from tidemark.memory_curve import OTHERS, WORKSPACE, MemoryCurve
from tidemark.memory_report import at_peak
from timeline import Timeline

from models import MODELS, transformer

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("plan_of", [random_plan, swapped])
def test_curves_are_what_the_planner_counts(plan_of, name, seed):
    graph = tidemark.capture(*MODELS[name]())
    plan = plan_of(graph, seed)
    planned = MemoryCurve.of_plan(plan)
    assert planned.total() == Timeline(graph, plan.schedule).live_bytes(plan.swaps)
    assert MemoryCurve.of_plan(plan, "module").total() == planned.total()
    assert MemoryCurve.of_keeping_all(graph).total() == graph.keep_all_live_bytes()
    assert max(planned.total()) <= plan.peak_bytes
    if not plan.swaps:  # copies on their way take memory too
        peak = plan.answer["captured"]["live_peak_position"]
        assert planned.total()[peak] == plan.peak_bytes
        assert _nonzero({role: levels[peak] for role, levels in planned.layers.items()}) == _nonzero(at_peak(plan)[0])


def _nonzero(bytes_by_role):
    return {role: bytes_ for role, bytes_ in bytes_by_role.items() if bytes_}


def test_modules_are_told_apart_by_layer():
    graph = tidemark.capture(*transformer(layers=8))
    found = MemoryCurve.of_keeping_all(graph, "module").layers.keys()
    assert found <= {*map(str, range(8)), "inputs", "backward", OTHERS, WORKSPACE} and OTHERS in found and len(found) == 7


def test_the_largest_storages_of_a_position_are_live_there():
    graph = tidemark.capture(*transformer())
    curve, ranges = MemoryCurve.of_keeping_all(graph), graph.live_ranges()
    for position, found in curve.largest(range(len(graph.ops)), 3):
        live = [s for s, (first, last) in enumerate(ranges) if first <= position <= last]
        assert [graph.block_bytes(s) for s in found] == sorted(map(graph.block_bytes, live), reverse=True)[:3]


def drawn(picture):
    """The SVG, parsed: names of modules must not have broken it."""
    return ElementTree.fromstring(picture.svg)


def texts(picture):
    return [element.text for element in drawn(picture).iter(f"{SVG}text")]


def test_a_plan_has_a_picture_that_needs_nothing_besides(tmp_path):
    plan = random_plan(tidemark.capture(*transformer()), 0, share=0.9)
    picture = plan.picture(tmp_path / "step.html")
    page = (tmp_path / "step.html").read_text()
    assert page == picture.page and page.startswith("<!doctype html>") and picture.svg in page
    assert "<script" not in page and set(re.findall(r"https?://[^\"]*", page)) == {"http://www.w3.org/2000/svg"}
    panels = {"before: everything kept, predicted", "planned, predicted"}
    assert panels | {"activations", "forward", "backward"} <= {*texts(picture)}
    said = " ".join(texts(picture))
    assert "predicted peak" in said and "measured" not in said
    plan.picture(tmp_path / "step.svg", by="module")
    assert ElementTree.parse(tmp_path / "step.svg").getroot().tag == f"{SVG}svg"
    assert picture._repr_svg_() == plan.picture().svg


@pytest.mark.parametrize("micro_batches, named", [(2, 4), (8, 2)])
def test_phases_are_named_where_they_begin(micro_batches, named):
    graph = tidemark.capture(*transformer(layers=1), micro_batches=micro_batches)
    said = texts(tidemark.picture(graph))
    assert said.count("forward") + said.count("backward") == named and said.count("forward") == named // 2


def test_swaps_and_recomputation_are_marked():
    plan = swapped(tidemark.capture(*transformer()), 1)
    fills = [element.get("class") for element in drawn(plan.picture()).iter(f"{SVG}rect")]
    again = len(plan.schedule) - len(plan.graph.ops)
    assert plan.swaps and fills.count("swap") > 1
    assert fills.count("recompute") == (again + 1 if again else 0)  # one is the legend's


def test_names_cannot_break_the_page():
    graph = tidemark.capture(*transformer(layers=1), name="<script>alert(1)</script>")
    graph.ops[0] = dataclasses.replace(graph.ops[0], name='"><b>', module="a&b")
    graph.storages[0] = dataclasses.replace(graph.storages[0], name="</title>\0<i>", module="<u>\x1b.0")
    for by in ("role", "module"):
        picture = tidemark.picture(graph, by=by)
        assert drawn(picture).get("aria-label") == "Memory of a step of <script>alert(1)</script>"
        assert not re.search(r"<(script|b|i|u)>", picture.page)


def test_what_was_measured_is_told_apart(tmp_path):
    model = layers()
    optimizer, x = sgd(model), batch()
    with tidemark.fit(model, x, mean_square, optimizer, "75%") as session:
        for i in range(3):
            tidemark.allocator.reset_peaks()
            with tidemark.measured_step() as step:
                mean_square(model(x)).backward()
                optimizer.step()
                optimizer.zero_grad()
            if i:
                assert step.live_bytes[0] == step.live_bytes[-1] == tidemark.allocator.statistics().allocated_bytes
            assert step.peak_bytes == tidemark.allocator.statistics().allocated_peak_bytes
    said = texts(tidemark.picture(session, measured=step))
    assert "measured: one step, by requests and releases of the allocator in order" in said
    assert sum("measured peak" in text for text in said) == 2 and sum("budget" in text for text in said) == 3
    assert not any("measured:" in text for text in texts(session.picture()))


def test_a_step_is_not_measured_while_the_session_records_one():
    model = layers()
    graph = tidemark.capture(model, batch(), mean_square)
    with tidemark.session(random_plan_within(graph), model):
        with pytest.raises(tidemark.SessionError, match="measure a later one"), tidemark.measured_step():
            pass


def random_plan_within(graph):
    return dataclasses.replace(random_plan(graph, 0, share=0.5), budget_bytes=2**28)


def test_what_has_no_picture_is_said():
    graph = tidemark.capture(*transformer(layers=1))
    with pytest.raises(ValueError, match="by is 'size'"):
        tidemark.picture(graph, by="size")
    with pytest.raises(ValueError, match="a int has no picture"):
        tidemark.picture(3)
