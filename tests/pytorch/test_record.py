"""The log of a session: every call of a run, the same for the same run, and no other run for it. What it says of races,
tests/swap/session_replay_test.cc finds out."""

import collections
import os
import pathlib
import re
import subprocess

import pytest
import tidemark
from make_session_log import MICRO_BATCHES, STEPS, build, make_plan, record
from random_plans import random_plan
from training import same, train

REPLAY = pathlib.Path(os.environ.get("TIDEMARK_BUILD_DIR", "")) / "tests/swap/swap_session_replay_test"


@pytest.fixture(scope="module")
def plan():
    return make_plan()


def events_of(path):
    """Lines behind the head, without addresses."""
    lines = path.read_text().splitlines()
    assert lines[0] == "tidemark_session version=1 host_bytes=0"
    return [re.sub(" at=[^ ]*", "", line) for line in lines if not line.startswith(("tidemark_session ", "loop "))]


def test_a_log_has_every_call_and_changes_nothing(plan, tmp_path):
    held = []

    def context(model):
        held.append(tidemark.session(plan, model, record=tmp_path / "log"))
        return held[0]

    assert same(
        train(build, context, steps=STEPS, micro_batches=MICRO_BATCHES),
        train(build, steps=STEPS, micro_batches=MICRO_BATCHES),
    )
    copies = held[0].counters.copies
    counts = collections.Counter(line.split()[0] for line in events_of(tmp_path / "log"))
    assert counts["begin_step"] == copies["steps"] == STEPS
    assert counts["rebuild"] == held[0].counters.recomputed > 0
    assert counts["copy_out"] == copies["copies_out"] > 0
    assert counts["copy_in"] == copies["copies_in"] > 0
    assert counts["use"] == counts["used"] == counts["save"] > 0  # of each, once
    assert counts["failed"] == counts["change"] == 0
    forward = [i for i, op in enumerate(plan.graph.ops) if op.phase == "forward"]
    told = [line for line in events_of(tmp_path / "log") if line.startswith("op ")]
    assert told == [f"op op={i}" for i in forward] * STEPS


def test_the_same_run_has_the_same_log(plan, tmp_path):
    for name in ("first", "second"):
        record(plan, tmp_path / name)
    assert events_of(tmp_path / "first") == events_of(tmp_path / "second")
    last = events_of(tmp_path / "first")[-1]
    assert last == "close" or last.startswith("release ")


@pytest.mark.skipif(not REPLAY.is_file(), reason="TIDEMARK_BUILD_DIR names no build with tests")
def test_a_fresh_log_has_no_race_on_a_hundred_schedules(plan, tmp_path):
    record(plan, tmp_path / "log")
    (tmp_path / "plan.json").write_bytes(plan.file)
    done = subprocess.run(
        [REPLAY, "--gtest_filter=*PyTorchsRunHasNoRace/0"],
        env=os.environ | {"TIDEMARK_SESSION_LOG": tmp_path / "log", "TIDEMARK_SESSION_PLAN": tmp_path / "plan.json"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "[  PASSED  ] 1 test." in done.stdout, done.stdout


def test_blocks_are_given_back_once(plan, tmp_path):
    record(plan, tmp_path / "log")
    held = collections.Counter()
    for line in events_of(tmp_path / "log"):
        name, *numbers = line.split()
        block = next((n for n in numbers if n.startswith("block=")), None)
        if name in ("take", "made", "room"):
            held[block] += 1
        elif name == "release" or (name == "used" and "handed_over" in numbers):
            held[block] -= 1
            assert held[block] >= 0
    assert set(held.values()) == {0}


def test_a_file_that_cannot_be_made_is_one_error(plan, tmp_path):
    path = tmp_path / "nowhere" / "log"
    with pytest.raises(tidemark.TidemarkError, match=f"{path}: cannot write: No such file or directory"):
        tidemark.session(plan, build()[0], record=path).__enter__()


def test_a_log_that_cannot_be_written_is_told_once_and_the_session_goes_on(plan):
    model, inputs, loss_fn = build()
    with tidemark.session(plan, model, record="/dev/full"):
        with pytest.raises(tidemark.TidemarkError, match="/dev/full: cannot write: No space left"):
            model(*inputs)
        loss_fn(model(*inputs)).backward()
    with tidemark.session(plan, model):
        loss_fn(model(*inputs)).backward()


def test_nothing_is_written_without_a_session_that_follows(tmp_path):
    model, inputs, loss_fn = build()
    everything = random_plan(tidemark.capture(model, inputs, loss_fn), 0, share=0.0)
    with tidemark.session(everything, model, record=tmp_path / "log"):
        loss_fn(model(*inputs)).backward()
    assert not (tmp_path / "log").exists()
