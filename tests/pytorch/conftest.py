"""One thread: other load on the machine must not turn into waiting. Tidemark's allocator serves from the start, so that
every test runs on it. Without an installed package the checkout's is tested (TIDEMARK_LIBRARY_DIR says where the
libraries are)."""

import functools
import gc
import importlib.util
import pathlib
import sys

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
if importlib.util.find_spec("tidemark") is None:
    sys.path.insert(0, str(ROOT / "integrations" / "pytorch"))
for example in ("mla_moe", "dropless"):
    sys.path.insert(0, str(ROOT / "integrations" / "pytorch" / "examples" / example))

torch.set_num_threads(1)

import tidemark.allocator  # noqa: E402
import tidemark.planning  # noqa: E402

tidemark.allocator.install()


def pytest_configure(config):
    config.addinivalue_line("markers", "whole_search: plans with all of the planner's work")


def pytest_collection_finish():
    """What has been imported stays: the collections below need not look at it each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _without_what_other_tests_left():
    """Models of tests before lie in cycles until they are collected, and what a session measures counts them. What stands in
    granules that they had would be scattered as theirs was."""
    gc.collect()
    tidemark.allocator.empty_cache()


@pytest.fixture(autouse=True)
def _quick_plans(monkeypatch, request):
    """The planner with a hundredth of its work: any plan that fits will do here. How good plans are is tested below tests/planner,
    and what runs in processes of its own, as the README's commands do, searches as long as ever."""
    if request.node.get_closest_marker("whole_search"):
        return
    quick = functools.partial(tidemark.planning.plan_within, effort_percent=1)
    monkeypatch.setattr(tidemark.planning, "plan_within", quick)


@pytest.fixture
def sessions(monkeypatch):
    """Those that tidemark.session() begins."""
    made, begin = [], tidemark.session

    def session(*args, **kwargs):
        made.append(begin(*args, **kwargs))
        return made[-1]

    monkeypatch.setattr(tidemark, "session", session)
    return made
