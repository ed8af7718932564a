"""What capture knows of accelerators, as far as it shows without one; test_cuda.py trains on one."""

import types

import pytest
import tidemark
import torch
from random_plans import least, swapped
from tidemark import engine, fake_step, kernels
from tidemark.cost import default_rates
from training import same, train

from models import transformer

ATEN = torch.ops.aten


@pytest.mark.parametrize("func", [ATEN._scaled_dot_product_efficient_attention, ATEN._efficient_attention_forward])
def test_the_state_of_attentions_generator_is_returned_in_host_memory(func):
    names = [r.name for r in func.default._schema.returns]
    assert [names[position] for position in kernels.host_outputs(func.default)] == ["philox_seed", "philox_offset"]


def test_it_is_read_there():
    for packet in (ATEN._scaled_dot_product_efficient_attention_backward, ATEN._efficient_attention_backward):
        func = packet.default
        names = [a.name for a in func._schema.arguments]
        assert [names[position] for position in kernels.host_arguments(func)] == ["philox_seed", "philox_offset"]
    assert kernels.host_arguments(ATEN.mm.default) == kernels.host_outputs(ATEN.mm.default) == ()


def test_what_is_returned_in_host_memory_takes_none_of_the_device(monkeypatch):
    """Said of a layer norm's means and deviations: they are kept as they are, and the norm may run again."""
    plain = tidemark.capture(*transformer())
    monkeypatch.setattr(kernels, "host_outputs", lambda func: (1, 2) if func is ATEN.native_layer_norm.default else ())
    graph = tidemark.capture(*transformer())
    assert graph.keep_all_peak_bytes() < plain.keep_all_peak_bytes()
    sessions = []

    def context(model):
        sessions.append(tidemark.session(swapped(graph, 0), model))
        return sessions[-1]

    assert same(train(transformer, context), train(transformer))
    assert sessions[0].counters.off_plan == 0 and sessions[0].counters.swapped > 0


def _updates(graph):
    return {op.name for op in graph.ops if op.phase == "optimizer"}


def test_an_optimizer_is_captured_with_the_kernels_that_the_device_has(monkeypatch):
    """Fakes hide from PyTorch that it steps all parameters at once where the device can."""
    model, inputs, loss_fn = transformer()

    def updates(**chosen):
        optimizer = torch.optim.AdamW(model.parameters(), **chosen)
        return _updates(tidemark.capture(model, inputs, loss_fn, optimizer=optimizer))

    one_by_one, at_once = updates(foreach=False), updates(foreach=True)
    assert one_by_one != at_once and any("_foreach_" in name for name in at_once)
    assert updates() == one_by_one
    monkeypatch.setattr(fake_step, "foreach_devices", lambda: ["cpu"])
    assert updates() == at_once
    assert updates(foreach=False) == one_by_one
    assert not any("_foreach_" in name for name in updates(differentiable=True))


def test_a_step_of_all_parameters_at_once_stands_where_it_is_planned():
    model, inputs, loss_fn = transformer(dropout=0.0)
    stepper = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
    graph = tidemark.capture(model, inputs, loss_fn, optimizer=stepper, measured=True)
    with tidemark.session(tidemark.plan(graph, least(graph)), model) as session:
        counts = []
        for _ in range(4):
            loss_fn(model(*inputs)).backward()
            stepper.step()
            stepper.zero_grad()
            counts.append(session.counters.copies)
    served, elsewhere = (counts[-1][k] - counts[0][k] for k in ("requests_planned", "requests_unplanned"))
    assert served > 100 and served >= 0.99 * (served + elsewhere)


def test_what_makes_other_bits_each_time_never_runs_again():
    assert kernels.recompute_class(ATEN._cudnn_rnn.default) == "never"  # draws from a state of its own
    for func in (ATEN.index_add.default, ATEN.scatter_add.default, ATEN.index_put.default, ATEN.cumsum.default):
        assert kernels.adds_in_any_order(func, "cuda") and not kernels.adds_in_any_order(func, "cpu")
    assert not kernels.adds_in_any_order(ATEN.add.Tensor, "cuda")
    torch.use_deterministic_algorithms(True)
    try:
        assert not kernels.adds_in_any_order(ATEN.index_add.default, "cuda")
    finally:
        torch.use_deterministic_algorithms(False)


def test_copies_to_host_memory_have_a_name_of_their_own():
    """Of meta tensors as of an accelerator's."""
    there, here = torch.empty(2, device="meta"), torch.empty(2)
    copy = ATEN._to_copy.default
    assert kernels.copies_to_host(copy, (there,), {"device": torch.device("cpu")})
    assert not kernels.copies_to_host(copy, (here,), {"device": torch.device("cpu")})
    assert not kernels.copies_to_host(copy, (there,), {"dtype": torch.bfloat16})
    assert kernels.name_of_call(copy, True) == "aten._to_copy.default to host"  # as csrc/session_engine.cc has it
    assert kernels.name_of_call(copy, False) == "aten._to_copy.default"


def test_an_accelerator_is_not_modelled_as_a_processor():
    assert default_rates("cuda").flops_per_s > 1000 * default_rates("cpu").flops_per_s
    assert default_rates("npu").bytes_per_s > 100 * default_rates("cpu").bytes_per_s


def test_an_npu_whose_launches_are_queued_is_refused_without_the_shim(monkeypatch):
    monkeypatch.setattr(torch, "npu", types.SimpleNamespace(current_device=lambda: 0), raising=False)
    monkeypatch.setattr(engine.library, "npu_shim", lambda: None)
    device = types.SimpleNamespace(type="npu", index=0)
    for setting in ("1", "2", ""):
        monkeypatch.setenv("TASK_QUEUE_ENABLE", setting)
        with pytest.raises(tidemark.SessionError, match="set TASK_QUEUE_ENABLE=0"):
            engine.check_device(device)
    monkeypatch.setenv("TASK_QUEUE_ENABLE", "0")
    engine.check_device(device)
    monkeypatch.setenv("TASK_QUEUE_ENABLE", "1")
    monkeypatch.setattr(engine.library, "npu_shim", lambda: object())  # which keeps the order of the queue
    engine.check_device(device)
