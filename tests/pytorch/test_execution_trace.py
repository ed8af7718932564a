"""Execution traces that PyTorch itself has written, as graphs to plan with."""

import json
import re

import pytest
import tidemark
import torch
from test_plan import encoder
from torch.profiler import ExecutionTraceObserver

from models import MODELS


def trace_of(path, model, inputs, loss_fn):
    """The second step, by when the optimizer has its state."""
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)

    def step():
        loss_fn(model(*inputs)).backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    observer = ExecutionTraceObserver()
    observer.register_callback(str(path))
    observer.start()
    step()
    observer.stop()
    observer.unregister_callback()
    return path


def forward_kernels(graph):
    return [name for op in graph.ops if op.phase == "forward" for name in op.name.split("+")]


@pytest.mark.parametrize("name", MODELS)
def test_the_kernels_and_bytes_are_those_of_capture(tmp_path, name):
    model, inputs, loss_fn = MODELS[name]()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    captured = tidemark.capture(model, inputs, loss_fn, optimizer=optimizer)
    graph = tidemark.import_execution_trace(trace_of(tmp_path / "trace.json", model, inputs, loss_fn))
    seen, known = forward_kernels(graph), forward_kernels(captured)
    # Where no mode watches, a bias is added in place.
    assert [n.rstrip("_") for n in seen[: len(known)]] == [n.rstrip("_") for n in known]

    def made(g):
        writes = dict.fromkeys(s for op in g.ops if op.phase == "forward" for s in op.writes)
        return [g.storages[s].bytes for s in writes if g.storages[s].role == "activation"]

    if seen[: len(known)] == known:
        assert made(graph)[: len(made(captured))] == made(captured)
    else:
        assert name == "transformer"
    parameters = sum(s.bytes for s in captured.storages if s.role == "parameter")
    imported = sum(s.bytes for s in graph.storages if s.role == "parameter")
    assert 0.5 * parameters < imported <= parameters  # buffers and frozen parameters are never stepped
    assert {op.phase for op in graph.ops} == {"forward", "backward", "optimizer"}


def test_a_plan_for_a_trace(tmp_path):
    model, inputs, loss_fn, _ = encoder()
    graph = tidemark.import_execution_trace(trace_of(tmp_path / "trace.json", model, inputs, loss_fn))
    answer, _ = tidemark.planning.solve(graph.to_json(), int(0.8 * graph.keep_all_peak_bytes()))
    assert answer["fits"]
    assert answer["ranks"][0]["peak_bytes"] <= 0.8 * graph.keep_all_peak_bytes()
    assert len(answer["captured"]["order"]) > len(graph.ops)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"schema": "1.1.1-chakra.0.0.4"}',
        '{"schema": "1.1.1-chakra.0.0.4", "nodes": []}',
        '{"schema": "1.1.1-chakra.0.0.4", "nodes": [{"id": 1}]}',
        '{"schema": "1.1.1-chakra.0.0.4", "nodes": [7]}',
        '{"schema": "other", "nodes": []}',
        "[" * 100000,
    ],
)
def test_what_is_no_trace_is_refused(tmp_path, text):
    path = tmp_path / "trace.json"
    path.write_text(text)
    with pytest.raises(tidemark.TidemarkError, match="trace.json: .*right would be what torch.profiler"):
        tidemark.import_execution_trace(path)


def test_operators_that_are_not_known_run_once(tmp_path):
    model, inputs, loss_fn, _ = encoder()
    path = trace_of(tmp_path / "trace.json", model, inputs, loss_fn)
    value = json.loads(path.read_text())
    for node in value["nodes"]:
        for attribute in node["attrs"]:
            if attribute["name"] == "op_schema":
                attribute["value"] = re.sub(r"^aten::(relu|clamp_min)\b", "load_library::x", attribute["value"])
    path.write_text(json.dumps(value))
    graph = tidemark.import_execution_trace(path)
    assert any(op.recompute == "never" for op in graph.ops if op.phase == "forward" and op.name == "aten.clamp_min")
