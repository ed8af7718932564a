"""Plans as files: what is saved trains the same, and so does what the command line planned."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest
import tidemark
import torch
from random_plans import least
from test_plan import BUILDS, captured, train
from tidemark.rows import from_rows, to_rows


@pytest.mark.parametrize("name", list(BUILDS))
def test_a_plan_from_its_file_is_the_plan(name, tmp_path):
    graph = captured(BUILDS[name])
    plan = tidemark.plan(graph, least(graph))
    plan.save(tmp_path / "plan.json")
    loaded = tidemark.Plan.load(tmp_path / "plan.json")
    assert loaded.file == plan.file and loaded.graph.to_json() == graph.to_json()
    assert (loaded.schedule, loaded.swaps, loaded.peak_bytes) == (plan.schedule, plan.swaps, plan.peak_bytes)
    assert (loaded.budget_bytes, loaded.reserve_bytes) == (plan.budget_bytes, 0)
    assert loaded.model() is None


def test_a_session_trains_from_a_file(tmp_path):
    build = BUILDS["encoder"]
    graph = captured(build)
    plan = tidemark.plan(graph, least(graph))
    reference = train(build, lambda model: tidemark.session(plan, model), 3)[0]

    plan.save(tmp_path / "plan.json")
    assert train(build, lambda model: tidemark.session(str(tmp_path / "plan.json"), model), 3)[0] == reference


def edited(plan, path, edit):
    """The plan of a step that was edited before it was planned."""
    step = json.loads(plan.graph.to_json())
    edit(step)
    answer, file = tidemark.planning.solve(json.dumps(step), 1 << 40)
    assert answer["fits"]
    path.write_bytes(file)
    return path


def test_a_plan_of_an_edited_step_is_refused(tmp_path):
    graph = captured(BUILDS["encoder"])
    plan = tidemark.plan(graph, least(graph))

    def leave_out_the_last(step):
        step["ops"].pop()
        for storage in step["storages"]:
            if "pinned_until" in storage:
                storage["pinned_until"] = min(storage["pinned_until"], len(step["ops"]) - 1)

    def enlarge_a_parameter(step):
        step["storages"][0]["bytes"] += 512 << 10

    for edit, says in (
        (leave_out_the_last, "operations, and the captured step has"),
        (enlarge_a_parameter, "with everything kept"),
    ):
        path = edited(plan, tmp_path / "plan.json", edit)
        with pytest.raises(tidemark.TidemarkError, match=f"{path}: .*{says}.*; capture and plan again"):
            tidemark.Plan.load(path)


def tool():
    """The program of the build that the package was installed from, where that has one."""
    place = pathlib.Path(os.environ.get("TIDEMARK_BUILD_DIR", "build/pytorch")) / "integrations" / "cli" / "tidemark"
    return place if place.is_file() else shutil.which("tidemark")


def test_a_session_trains_from_what_the_command_line_planned(tmp_path):
    program = tool()
    if program is None:
        pytest.skip("the program tidemark is not in the build that the package is of")
    build = BUILDS["resnet"]
    graph = captured(build)
    (tmp_path / "step.json").write_text(graph.to_json())
    budget = least(graph)
    done = subprocess.run(
        [program, "plan", "--graph", tmp_path / "step.json", "--budget", f"{budget}B", "--out", tmp_path / "plan.json"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    seen = train(build, lambda model: tidemark.session(tmp_path / "plan.json", model), 3)[0]
    plan = tidemark.plan(graph, least(graph))
    assert seen == train(build, lambda model: tidemark.session(plan, model), 3)[0]


def test_files_of_others_are_refused_in_one_line(tmp_path):
    place = tmp_path / "plan.json"
    with pytest.raises(tidemark.TidemarkError, match="no such file|No such file"):
        tidemark.Plan.load(place)
    graph = captured(BUILDS["resnet"])
    data = json.loads(graph.to_json())
    del data["framework"]
    place.write_bytes(tidemark.planning.solve(json.dumps(data), 1 << 30)[1])
    with pytest.raises(tidemark.TidemarkError, match=r"plan\.json: it is no plan for a step that tidemark.capture"):
        tidemark.Plan.load(place)
    for text in ("", "{}", '{"pytorch": 2}', '{"pytorch": 1, "graph": []}', '{"pytorch": 1, "budget": 1, "graph": [1]}'):
        data["framework"] = text or "none"
        place.write_bytes(tidemark.planning.solve(json.dumps(data), 1 << 30)[1])
        with pytest.raises(tidemark.TidemarkError, match=r"plan\.json: .* capture and plan again"):
            tidemark.Plan.load(place)
    place.write_bytes(tidemark.planning.solve(graph.to_json(), 1 << 20)[1])
    with pytest.raises(tidemark.TidemarkError, match="does not fit its budget"):
        tidemark.session(place, torch.nn.Linear(1, 1))


def test_rows_are_of_the_types_of_the_fields():
    graph = captured(BUILDS["encoder"])
    for op in graph.ops:
        assert from_rows(type(op), json.loads(json.dumps(to_rows(op)))) == op
    row = to_rows(graph.storages[0])
    for wrong in (row[:-1], [*row, 1], [1, *row[1:]], None, "x", {"name": 1}):
        with pytest.raises((TypeError, ValueError)):
            from_rows(type(graph.storages[0]), wrong)


def test_a_reserve_is_left_to_others(tmp_path):
    graph = captured(BUILDS["encoder"])
    budget, reserve = least(graph), 5 << 20
    with pytest.raises(tidemark.InfeasibleError) as refusal:
        tidemark.plan(graph, budget, reserve=reserve)
    assert refusal.value.smallest_bytes == budget + reserve
    held = tidemark.plan(graph, budget + reserve, reserve="5MiB")
    plain = tidemark.plan(graph, budget)
    assert held.schedule == plain.schedule and held.peak_bytes == plain.peak_bytes
    assert held.budget_bytes == budget + reserve
    held.save(tmp_path / "plan.json")
    loaded = tidemark.Plan.load(tmp_path / "plan.json")
    assert (loaded.budget_bytes, loaded.reserve_bytes) == (held.budget_bytes, reserve)
    with pytest.raises(tidemark.TidemarkError, match="leaves nothing of the budget"):
        tidemark.plan(graph, budget, reserve=budget)
