"""Hugging Face's Trainer within a budget, by one line behind the Trainer's making:

    trainer.add_callback(TidemarkCallback(trainer, "60%"))

The first step's own batch is captured before it is trained on, through the Trainer's own training_step(): its loss, label
smoothing, autocast and gradient accumulation. From then on a session is active until train() is left, by its end or by an
exception. Thread rule: that of sessions.
"""

import contextlib
import copy
import functools

from transformers import TrainerCallback

from . import logs
from .fitting import fit
from .loop_step import batch_of, begin_scaler, loss_of
from .wrappers import inner_model, replaced


class TidemarkCallback(TrainerCallback):
    """Of one Trainer. `budget` and all arguments by name are those of tidemark.fit(). `batch`: what the Trainer's collator
    would make of the largest examples, where the first batch may be smaller; by default the first batch. `session`: the
    one of the last training, None before."""

    def __init__(self, trainer, budget=None, *, batch=None, **fitting):
        self.session = None
        self._trainer = trainer
        self._budget, self._batch, self._fitting = budget, batch, fitting
        self._first = None  # batches of a step and the number of their items, as the Trainer counts them; until it is fitted
        self._undo, self._sees = contextlib.ExitStack(), contextlib.ExitStack()
        trainer.train = self._left_behind(trainer.train)

    def _left_behind(self, train):
        @functools.wraps(train)
        def wrapped(*args, **kwargs):
            with self._undo:
                return train(*args, **kwargs)

        return wrapped

    def on_train_begin(self, args, state, control, **_):
        self._undo.close()  # of a training that is begun anew, with smaller batches say
        self.session = self._first = None
        get = functools.partial(self._seen, self._trainer.get_batch_samples)
        self._undo.callback(self._forget_first)
        self._sees.enter_context(replaced(self._trainer, "get_batch_samples", get))

    def _seen(self, get, *args, **kwargs):
        found = get(*args, **kwargs)
        self._first = self._first or found
        return found

    def _forget_first(self):
        """These batches would lie beside those of later steps, where no plan has room for them."""
        self._first = None
        self._sees.close()

    def on_step_begin(self, args, state, control, **_):
        if self.session is None:
            self.session = self._fit(args)
            self._forget_first()
            self._undo.callback(logs.reported, self.session)
            self._undo.enter_context(self.session)

    def on_train_end(self, args, state, control, **_):
        self._undo.close()

    def _fit(self, args):
        model, accelerator = inner_model(self._trainer.model), self._trainer.accelerator
        begin_scaler(accelerator.scaler, accelerator.device)
        return fit(
            model,
            batch_of(self._step, model),
            lambda output: loss_of(self._step, model, output),
            self._trainer.optimizer,
            self._budget,
            **{"micro_batches": args.gradient_accumulation_steps, "holds_output": False} | self._fitting,
        )

    def _step(self, model):
        batches, items = self._first
        batch = batches[0] if self._batch is None else self._batch
        self._trainer.training_step(model, copy.copy(batch), items)
