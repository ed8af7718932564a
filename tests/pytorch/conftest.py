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


@pytest.fixture(autouse=True)
def _without_what_other_tests_left():
    """Models of tests before lie in cycles until they are collected, and what a session measures counts them."""
    gc.collect()


@pytest.fixture
def quick_plans(monkeypatch):
    """The planner with a hundredth of its work, where any plan that fits will do."""
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
