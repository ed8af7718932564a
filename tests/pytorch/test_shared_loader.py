"""tidemark.SharedLoader in four processes that talk over gloo."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest
import tidemark
from ranks import said_by

WORLD = 4
EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "integrations/pytorch/examples/shared_loader/train.py"


def said(case, folder, world=WORLD):
    arguments = lambda rank: (rank, world, folder / "store", case)  # noqa: E731
    return [json.loads(out) for out in said_by("shared_loader_process.py", arguments, world, folder, timeout=120)]


@pytest.mark.parametrize("case", ["epochs", "workers"])
def test_all_ranks_have_the_bytes_that_one_of_them_read(case, tmp_path):
    ranks = said(case, tmp_path)
    for rank in ranks:
        assert [rank["first"], rank["second"]] == rank["expected"], "as a plain loader in each rank"
        assert rank["length"] == len(rank["first"]) == 7
        assert rank["same object"] and rank["types"] == ["Pair", "Sample"]
    assert len(set(ranks[0]["first"])) == 7
    # Workers read in processes of their own, where reads are not counted.
    most = 3 * 20 if case == "epochs" else 0
    assert [rank["reads"] for rank in ranks[1:]] == [0, 0, 0]
    assert 2 * 20 + 3 * 3 <= ranks[0]["reads"] <= most or case == "workers"


def test_one_rank_alone_reads_as_well(tmp_path):
    (rank,) = said("epochs", tmp_path, world=1)
    assert [rank["first"], rank["second"]] == rank["expected"]


def test_what_has_no_length_is_read_to_its_end(tmp_path):
    for rank in said("generator", tmp_path):
        assert "does not know its length" in rank["length"]
        assert [index for _, index in rank["first"]] == [0, 1, 2]
        assert rank["first"][2][0] == [[2.0, 2.0]] * 3
        assert rank["second"] == 0


def test_an_empty_loader_has_no_batch_in_any_epoch(tmp_path):
    assert said("empty", tmp_path) == [{"length": 0, "batches": 0, "again": 0}] * WORLD


@pytest.mark.parametrize(
    ("case", "taken", "says"),
    [
        ("failing", 3, "ValueError: sample 10 is torn"),
        ("unpicklable", 1, "pickle"),
        ("sparse", 0, "layout torch.sparse_coo"),
        ("broken_iterator", 0, "OSError: no such data set"),
    ],
)
def test_what_the_reading_rank_raises_all_ranks_raise(case, taken, says, tmp_path):
    ranks = said(case, tmp_path)
    for rank in ranks:
        assert rank["taken"] == taken
        assert "rank 0, which reads, raised " in rank["error"] and says in rank["error"]
        assert rank["later"] == "no batch after an error"
    assert ranks[0]["cause"] != "NoneType" and ranks[1]["cause"] == "NoneType"


def test_groups_do_not_see_each_other(tmp_path):
    ranks = said("groups", tmp_path)
    assert ranks[0]["digests"] == ranks[1]["digests"] and len(ranks[0]["digests"]) == 2
    assert ranks[2]["digests"] == ranks[3]["digests"] and len(ranks[2]["digests"]) == 3
    assert [rank["reads"] for rank in ranks] == [6, 0, 9, 0], "a loader on a rank that does not read is not looked at"
    assert all("is not one of the group's" in rank["refused"] for rank in ranks)


def test_one_batch_is_read_ahead_and_no_more(tmp_path):
    ranks = said("ahead", tmp_path)
    assert ranks[0]["reads"] == [0, 6, 9], "two batches of three when one is taken, three when two are"
    assert [rank["reads"] for rank in ranks[1:]] == [[0, 0, 0]] * 3


def test_collectives_of_the_training_go_on_between_batches(tmp_path):
    for rank in said("training", tmp_path):
        assert rank["sums"] == [0] * 7


def test_a_rank_that_took_fewer_batches_is_told(tmp_path):
    assert "all ranks of the group must take the same number" in said("uneven", tmp_path)[1]["error"]


def test_a_reader_that_never_answers_ends_the_wait(tmp_path):
    for rank in said("stuck", tmp_path)[1:]:
        assert rank["taken"] == 0 and "did not answer in time" in rank["error"]


def test_a_reader_that_was_killed_is_no_reason_to_wait_for_ever(tmp_path):
    program = pathlib.Path(__file__).with_name("shared_loader_process.py")
    command, store = [sys.executable, "-W", "ignore", program], tmp_path / "store"
    started = [
        subprocess.Popen([*command, str(rank), str(WORLD), store, "killed"], stdout=subprocess.PIPE, text=True)
        for rank in range(WORLD)
    ]
    try:
        outs = [process.communicate(timeout=90)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    assert started[0].returncode == -signal.SIGKILL
    for process, out in zip(started[1:], outs[1:], strict=True):
        assert process.returncode == 0
        rank = json.loads(out)
        assert "lost each other" in rank["error"] and rank["taken"] <= 1 and rank["seconds"] < 30


def test_a_closed_loader_says_so_at_once(tmp_path):
    for rank in said("closed", tmp_path):
        for call in rank["said"]:
            kind, text, _ = call["raised"]
            assert kind == "SharedLoaderError" and text == "the loader is closed; a new SharedLoader would be right"
            assert call["seconds"] < 5
        assert len(rank["said"]) == 4 and rank["length"] == 7 and rank["threads"] == 0


def test_a_loader_is_closed_also_where_the_batch_ahead_fails(tmp_path):
    for rank in said("closed_after_failure", tmp_path):
        closing, later, again = (call["raised"] for call in rank["said"])
        assert closing[0] == "SharedLoaderError" and "ValueError: sample 4 is torn" in closing[1]
        assert later[0] == "SharedLoaderError" and later[1].startswith("no batch after an error")
        assert again[0] == "nothing"
        assert rank["threads"] == 0 and rank["groups"] == 0


def test_a_length_that_cannot_be_had_is_an_error_on_all_ranks(tmp_path):
    ranks = said("broken_length", tmp_path)
    for rank in ranks:
        assert rank["raised"][0] == "SharedLoaderError" and rank["seconds"] < 10
        assert "rank 0, which reads, raised OSError: the index is torn" in rank["raised"][1]
        assert rank["threads"] == 0
    assert [rank["raised"][2] for rank in ranks] == ["OSError", *["NoneType"] * (WORLD - 1)]


def test_the_example_trains_on_the_same_bytes_in_all_ranks():
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4", EXAMPLE]
    # The package that is tested: installed, or the checkout's.
    beside = {**os.environ, "PYTHONPATH": str(pathlib.Path(tidemark.__file__).parents[1])}
    out = subprocess.run(command, check=True, capture_output=True, text=True, timeout=180, env=beside).stdout
    form = r"rank \d: 48 batches of 8 an epoch, (\d+) samples read, digest (\w+), loss (\S+) to (\S+)"
    lines = sorted(re.findall(form, out))
    assert len(lines) == WORLD and len({line[1:] for line in lines}) == 1, out
    assert sorted(int(line[0]) for line in lines) == [0, 0, 0, 6 * 64]
    assert float(lines[0][3]) < float(lines[0][2])
