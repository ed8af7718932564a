"""One training step as a loop would run it, under capture's recorder: the whole model, or the part of it that one
process of a pipeline has."""

import torch

from .errors import CaptureError


def call_model(model, batch):
    if isinstance(batch, dict):
        return model(**batch)
    return model(*batch) if isinstance(batch, (tuple, list)) else model(batch)


def check_loss(loss, output, model):
    """Raises CaptureError, with the line that would mend it, where backward could not begin at `loss`."""
    name = type(model).__name__
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        kind = f"of shape {tuple(loss.shape)}" if isinstance(loss, torch.Tensor) else f"a {type(loss).__name__}"
        raise CaptureError(
            f"the loss of {name} is {kind}; it must be a tensor of one element: give a loss_fn that makes one of the "
            f"output, for instance lambda output: {_loss_of(output)}"
        )
    if not loss.requires_grad:
        raise CaptureError(
            f"the loss of {name} has no gradient: no parameter with one takes part in it; give a loss_fn whose result "
            f"can be differentiated, or have parameters of {name} trained with .requires_grad_()"
        )


def _loss_of(output):
    """What a program would write to make a loss of it, as far as can be seen."""
    if isinstance(output, dict) and "loss" in output:
        return 'output["loss"]'
    return "criterion(output, targets)" if isinstance(output, torch.Tensor) else "criterion(output[0], targets)"


def run_step(recorder, model, inputs, loss_fn, optimizer, holds_output):
    hooks = torch.autograd.graph.saved_tensors_hooks(recorder.pack, recorder.unpack)
    for i, batch in enumerate(inputs):
        recorder.frames.micro_batch = i
        recorder.phase = "forward"
        with hooks:
            output = call_model(model, batch)
            loss = output if loss_fn is None else loss_fn(output)
        check_loss(loss, output, model)
        if not holds_output:
            output = None
        recorder.phase = "backward"
        recorder.node_ends.watch(loss.grad_fn)
        loss.backward()
        for path, parameter in model.named_parameters():
            if parameter.grad is not None:
                recorder.log.mark_role(parameter.grad, "gradient", f"{path}.grad")
    recorder.phase = "optimizer"
    if optimizer is not None:
        optimizer.step()
    recorder.log.bury()


def run_pipeline(recorder, model, inputs, loss_fn, optimizer, chunks, order):
    hooks = torch.autograd.graph.saved_tensors_hooks(recorder.pack, recorder.unpack)
    received, outputs = {}, {}
    for kind, i, chunk in order:
        recorder.frames.micro_batch = i * chunks + chunk
        recorder.phase = "backward"  # what is received is no work of the model's
        if kind == "forward":
            received[i, chunk] = [_received(recorder, t) for t in inputs]
            recorder.phase = "forward"
            with hooks:
                outputs[i, chunk] = loss_fn(model(*received[i, chunk], chunk), chunk)
            continue
        output = outputs.pop((i, chunk))
        recorder.node_ends.watch(output.grad_fn)
        output.backward(None if output.numel() == 1 else _filled(recorder, torch.empty_like(output), 1))
        del output, received[i, chunk]
        for path, parameter in model.named_parameters():
            if parameter.grad is not None:
                recorder.log.mark_role(parameter.grad, "gradient", f"{path}.grad")
    recorder.phase = "optimizer"
    if optimizer is not None:
        optimizer.step()
    recorder.log.bury()


def _received(recorder, value):
    """What has a gradient comes from another process; the rest is there from the start."""
    if not isinstance(value, torch.Tensor) or not value.requires_grad:
        return value
    return _filled(recorder, torch.empty_like(value), value.detach()).requires_grad_()


def _filled(recorder, tensor, value):
    """As what has come from another process is: unseen."""
    with recorder.paused(), torch.no_grad():
        return tensor.copy_(value) if isinstance(value, torch.Tensor) else tensor.fill_(value)
