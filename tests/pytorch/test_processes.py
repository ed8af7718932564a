"""Other threads and forked processes beside a session, and memory in forked processes."""

import contextlib
import os
import signal
import threading
import warnings

import pytest
import tidemark
import torch
from test_misuse import PLANS, in_a_child, planned_transformer, recomputing, swapping, works
from torch.utils.data import DataLoader, Dataset
from training import forks_after_capture, same


def in_time(check, seconds=60):
    """in_a_child(), which a child that hangs does not keep."""

    def with_alarm():
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(seconds)
        return check()

    return in_a_child(with_alarm)


@forks_after_capture
@pytest.mark.parametrize("copy_bytes_per_s", [0, 10**8])
def test_backward_in_a_fork_through_the_parents_graph(copy_bytes_per_s):
    model, inputs, loss_fn, plan = planned_transformer(swapping)
    torch.manual_seed(6)
    loss_fn(model(*inputs)).backward()
    plain = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    torch.manual_seed(6)
    with tidemark.session(plan, model, copy_bytes_per_s=copy_bytes_per_s):
        loss = loss_fn(model(*inputs))

        def backward():
            loss.backward()
            return same([p.grad for p in model.parameters()], plain)

        assert in_time(backward) == 0
        assert backward()


def test_a_fork_while_another_thread_is_in_a_call_of_the_session():
    """It holds the session's lock for as long as copies take, and the forked process has no such thread."""
    model, inputs, loss_fn, plan = planned_transformer(swapping)
    torch.manual_seed(6)
    loss_fn(model(*inputs)).backward()
    plain = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    torch.manual_seed(6)
    # Slow enough for some forks on a machine that has much else to do.
    with tidemark.session(plan, model, copy_bytes_per_s=10**6):
        loss = loss_fn(model(*inputs))
        backward = threading.Thread(target=loss.backward)
        backward.start()

        def changes():
            return bool((torch.zeros(8).add_(1) == 1).all())

        forks = 0
        while backward.is_alive():
            assert in_time(changes, seconds=20) == 0
            forks += 1
        backward.join()
        assert forks > 2
    assert same([p.grad for p in model.parameters()], plain)


def test_a_fork_writes_to_memory_of_its_own():
    there = torch.zeros(1 << 20)
    free = torch.zeros(1 << 20)
    del free  # its memory is free in both processes

    def change():
        there.fill_(7)
        made = [torch.full((1 << 20,), 9.0) for _ in range(4)]
        return all(bool((m == 9).all()) for m in made)

    assert in_time(change) == 0
    mine = torch.zeros(1 << 20)
    to_parent, from_parent = os.pipe()[::-1], os.pipe()

    def read():
        os.write(to_parent[0], b"1")
        os.read(from_parent[0], 1)  # the parent has written
        return bool((there == 0).all()) and bool((mine == 0).all())

    child = os.fork()
    if child == 0:
        os._exit(0 if read() else 1)
    os.read(to_parent[1], 1)
    there.fill_(3)
    mine.fill_(4)
    others = [torch.full((1 << 20,), 5.0) for _ in range(4)]
    os.write(from_parent[1], b"1")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (there == 3).all() and (mine == 4).all() and all((o == 5).all() for o in others)


class Numbers(Dataset):
    """Items that take some memory to make."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        torch.manual_seed(index)
        x = torch.randn(512, 32)
        for _ in range(4):
            x = x.clone() + 1
        return x[:16] + index


def test_workers_of_a_loader_do_not_disturb_training():
    model, _, loss_fn, plan = planned_transformer()

    def train(context, workers):
        torch.manual_seed(3)
        model.zero_grad()
        seen = []
        with context:
            for batch in DataLoader(Numbers(), batch_size=4, num_workers=workers):
                torch.manual_seed(7)
                loss = loss_fn(model(batch))
                loss.backward()
                seen.append(loss.detach())
        return seen + [p.grad.clone() for p in model.parameters()]

    plain = train(contextlib.nullcontext(), 0)
    assert same(train(contextlib.nullcontext(), 2), plain)
    assert same(train(tidemark.session(plan, model), 2), plain)


def test_a_model_that_another_thread_runs_does_not_count():
    model, inputs, loss_fn, plan = planned_transformer()
    stop, ran = threading.Event(), []

    def elsewhere():
        while not stop.is_set():
            out = model[0](inputs[0])
            out.sum().backward(inputs=[out])
            model(*inputs)
            ran.append(1)

    def gradients_of(context):
        torch.manual_seed(6)
        model.eval()  # no random numbers: the generator is everybody's
        model.zero_grad()
        with context:
            for _ in range(30):
                loss_fn(model(*inputs)).backward()
        return [p.grad.clone() for p in model.parameters()]

    model.eval()
    plan = recomputing(tidemark.capture(model, inputs, loss_fn))
    plain = gradients_of(contextlib.nullcontext())
    session = tidemark.session(plan, model)
    thread = threading.Thread(target=elsewhere)
    thread.start()
    try:
        planned = gradients_of(session)
    finally:
        stop.set()
        thread.join()
    assert ran and same(planned, plain)
    assert session.counters.off_plan == 0 and session.counters.micro_batches == 30
    assert torch._C._len_torch_dispatch_stack() == 0


def test_what_is_imported_during_a_session_outlives_it():
    model, inputs, loss_fn, plan = planned_transformer()
    with tidemark.session(plan, model):
        from torch.autograd import grad

        loss_fn(model(*inputs)).backward()
    x = torch.ones(3, requires_grad=True)
    assert torch.equal(grad(x.square().sum(), x)[0], 2 * x)
    assert works(model, inputs, loss_fn, plan)


@pytest.mark.parametrize("plan_of", PLANS.values(), ids=PLANS)
def test_a_departure_may_be_an_error(plan_of):
    """Where warnings are errors, forward ends with it and the next step works."""
    model, inputs, loss_fn, plan = planned_transformer(plan_of)
    handle = model[1].register_forward_hook(lambda _m, _i, out: torch.sin(out))
    with warnings.catch_warnings(), tidemark.session(plan, model):
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="was not captured|is called where"):
            model(*inputs)
        handle.remove()
        loss_fn(model(*inputs)).backward()
    assert works(model, inputs, loss_fn, plan)
