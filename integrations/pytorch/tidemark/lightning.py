"""Lightning's Trainer within a budget:

    lightning.Trainer(callbacks=[TidemarkCallback("60%")])

The first batch is captured before it is trained on: training_step() within the precision plugin's context, whatever it
calls, with accumulation of gradients. From then on a session is active until fit() is left, by its end or by an
exception. Thread rule: that of sessions.
"""

import contextlib
import functools
import inspect

import torch
from lightning.pytorch import Callback

from . import logs
from .chunking import aside
from .errors import CaptureError
from .fitting import fit
from .wrappers import replaced


class TrainingStep(torch.nn.Module):
    """training_step() as a module around the LightningModule, which calls parts of itself and never itself."""

    def __init__(self, module, step):
        super().__init__()
        self.module = module
        self._step = step

    def forward(self, *args, **kwargs):
        return self._step(*args, **kwargs)


class TidemarkCallback(Callback):
    """`budget` and all arguments by name are those of tidemark.fit(). `batch`: the largest to come, where the first may be
    smaller. `session`: the one of the last training, None before; its model is a TrainingStep, so that module paths begin
    with "module.". With automatic optimization alone.

    Gradients are cleared before the forward pass, not behind it, where Lightning does: they would take memory in it. What is
    logged is none of the step: self.log() is not called in capture, and its kernels are not followed in training."""

    def __init__(self, budget=None, *, batch=None, **fitting):
        self.session = None
        self._budget, self._batch, self._fitting = budget, batch, fitting
        self._undo = contextlib.ExitStack()

    def on_fit_start(self, trainer, pl_module):
        self._undo.close()
        self.session = None

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if self.session is None:
            self.session = self._begin(trainer, pl_module, batch, batch_idx)
        elif batch_idx % trainer.accumulate_grad_batches == 0:
            for optimizer in trainer.optimizers:
                pl_module.optimizer_zero_grad(trainer.current_epoch, batch_idx, optimizer)

    def on_fit_end(self, trainer, pl_module):
        self._undo.close()

    def on_exception(self, trainer, pl_module, exception):
        self._undo.close()

    def _begin(self, trainer, pl_module, batch, batch_idx):
        if not pl_module.automatic_optimization:
            raise CaptureError(
                f"{type(pl_module).__name__} optimizes by hand, where training_step() runs backward itself; have it return "
                f"the loss with automatic_optimization = True, or put tidemark.fit() around a module of it"
            )
        step = TrainingStep(pl_module, pl_module.training_step)
        session = self._fit(trainer, step, (self._batch if self._batch is not None else batch, batch_idx))
        self._undo.callback(logs.reported, session)
        self._follow(pl_module, step)
        return self._undo.enter_context(session)

    def _fit(self, trainer, step, batch):
        results = trainer.fit_loop.epoch_loop.automatic_optimization.output_result_cls
        settings = {"micro_batches": trainer.accumulate_grad_batches, "name": type(step.module).__name__}
        with replaced(step.module, "log", lambda *_, **__: None):
            return fit(
                step,
                batch[: _arguments_of(step.module)],
                lambda output: results.from_training_step_output(output, trainer.accumulate_grad_batches).closure_loss,
                trainer.optimizers[0],
                self._budget,
                autocast=trainer.precision_plugin.train_step_context,
                **settings | self._fitting,
            )

    def _follow(self, module, step):
        """The loop calls the module around training_step() in its place, and logs aside."""
        called = functools.wraps(module.training_step)(lambda *args, **kwargs: step(*args, **kwargs))
        self._undo.enter_context(replaced(module, "training_step", called))
        self._undo.enter_context(replaced(module, "log", _aside(module.log)))


def _arguments_of(module):
    """Lightning gives the number of the batch, by position, to those who take a second argument, whatever its name."""
    parameters = inspect.signature(module.training_step).parameters.values()
    return 2 if len(parameters) > 1 or any(p.kind is p.VAR_POSITIONAL for p in parameters) else 1


def _aside(function):
    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        with aside():
            return function(*args, **kwargs)

    return wrapped
