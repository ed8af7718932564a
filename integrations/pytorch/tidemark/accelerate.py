"""Accelerate within a budget, by one line around the training loop:

    with tidemark.accelerate.fit(accelerator, model, batch, loss, optimizer, "60%"):
        ...  # the loop, as ever

Accelerate takes no plugins or handlers but its own, so this is a function of what prepare() returned.
"""

from . import fitting
from .loop_step import begin_scaler, loss_of
from .wrappers import inner_model


def fit(accelerator, model, batch, loss=None, optimizer=None, budget=None, **arguments):
    """As tidemark.fit(), of what `accelerator` has prepared: its autocast, what its backward() makes of the loss, and its
    accumulation of gradients are captured. Returns a session, not yet begun."""
    model = inner_model(model)
    begin_scaler(accelerator.scaler, accelerator.device)

    def scaled(output):
        return loss_of(lambda _: accelerator.backward(output if loss is None else loss(output)), model, output)

    settings = {"micro_batches": accelerator.gradient_accumulation_steps} | arguments
    return fitting.fit(model, batch, scaled, optimizer, budget, **settings)
