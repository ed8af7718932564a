"""What a loop calls its model with and begins backward at, learnt from the loop's own code."""

import pytest
import tidemark
import torch
from tidemark.loop_step import batch_of, begin_scaler, loss_of
from torch import nn


class Scaled(nn.Linear):
    def forward(self, x, factor=1.0, **more):
        return super().forward(x) * factor


def model():
    torch.manual_seed(0)
    return Scaled(4, 4)


def x():
    return torch.ones(2, 4)


def loop(*args, **kwargs):
    def step(model):
        if not isinstance(model, nn.Linear):
            raise TypeError("a loop may look at what its model is")
        try:
            model.train()
            (model(*args, **kwargs).sum() / 2).backward()
        except Exception:  # as a loop that retries where memory has run out
            raise AssertionError("the loop has seen how it is looked at") from None

    return step


@pytest.mark.parametrize(
    "args, kwargs, expected",
    [((1, 2), {}, (1, 2)), ((), {"x": 1}, {"x": 1}), ((1,), {"factor": 2, "y": 3}, {"x": 1, "factor": 2, "y": 3})],
)
def test_what_the_model_is_called_with(args, kwargs, expected):
    assert batch_of(loop(*args, **kwargs), model()) == expected


def test_the_loss_is_where_backward_begins():
    seen = model()
    output = seen(x())
    before = torch.autograd.backward
    assert torch.equal(loss_of(loop(x()), seen, output), output.sum() / 2)
    assert torch.autograd.backward is before and seen.weight.grad is None


def test_a_step_that_calls_nothing_is_said():
    with pytest.raises(tidemark.CaptureError, match="never calls the model"):
        batch_of(lambda model: None, model())
    with pytest.raises(tidemark.CaptureError, match="never begins backward"):
        loss_of(lambda model: model(x()), model(), x())


def test_a_scaler_has_its_tensors_before_a_capture():
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    begin_scaler(scaler, torch.device("cpu"))
    assert type(scaler._scale) is torch.Tensor and scaler.get_scale() == 4.0
    begin_scaler(None, torch.device("cpu"))
