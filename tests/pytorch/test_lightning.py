"""Lightning's Trainers within a budget: the same losses and parameters, through training_step() whatever it calls."""

import pytest
import tidemark
import torch
from torch import nn

lightning = pytest.importorskip("lightning", reason="lightning is not installed")

from tidemark.lightning import TidemarkCallback  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*logging interval"),
]


class Regression(lightning.LightningModule):
    """Calls layers of its own and itself, logs, and returns a dict now and then."""

    def __init__(self, optimizer=torch.optim.AdamW, returns=lambda loss: loss):
        super().__init__()
        self.body = nn.Sequential(*(self.block() for _ in range(3)))
        self.head = nn.Linear(128, 1)
        self.optimizer, self.returns = optimizer, returns
        self.losses = []

    @staticmethod
    def block(width=128):
        return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * width, width))

    def forward(self, x):
        return self.head(self.body(x))

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.mse_loss(self(x).squeeze(-1), y) + 1e-3 * self.body[0](x).square().mean()
        self.log("train_loss", loss)
        self.log_dict({"half": loss / 2, "batch": float(batch_idx)})
        return self.returns(loss)

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.losses.append(outputs["loss"].item())

    def validation_step(self, batch):
        x, y = batch
        self.log("val_loss", nn.functional.mse_loss(self(x).squeeze(-1), y))

    def configure_optimizers(self):
        return self.optimizer(self.parameters(), lr=1e-2)


def data(count=2048):
    generator = torch.Generator().manual_seed(3)
    x, y = torch.randn(count, 128, generator=generator), torch.randn(count, generator=generator)
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=512, shuffle=True)


def learnt(make=Regression, callback=None, **arguments):
    """Losses, and parameters in memory of NumPy's, which no budget counts."""
    torch.manual_seed(0)
    module = make()
    settings = {"max_epochs": 2, "accelerator": "cpu", "logger": False, "enable_checkpointing": False} | arguments
    quiet = {"enable_progress_bar": False, "enable_model_summary": False}
    trainer = lightning.Trainer(callbacks=[callback] if callback else [], **settings, **quiet)
    torch.manual_seed(1)
    trainer.fit(module, data(), data(512))
    metrics = {name: value.item() for name, value in trainer.callback_metrics.items()}
    return module.losses, metrics, [p.detach().numpy().tobytes() for p in module.parameters()]


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"precision": "bf16-mixed", "accumulate_grad_batches": 2},
        {"gradient_clip_val": 0.5, "val_check_interval": 2},
        {"make": lambda: Regression(torch.optim.SGD, lambda loss: {"loss": loss, "half": loss.detach() / 2})},
    ],
    ids=["plain", "autocast and accumulation", "clipped, with validation", "a dict"],
)
def test_trainers_learn_the_same(arguments):
    expected = learnt(**arguments)
    callback = TidemarkCallback("85%")
    assert learnt(callback=callback, **arguments) == expected
    assert callback.session.counters.recomputed > 0 and callback.session.counters.off_plan == 0
    report = callback.session.report()
    assert report.measured_reserved_bytes <= report.budget_bytes


class Positional(Regression):
    def training_step(self, b, _):
        return super().training_step(b, _)


def test_arguments_of_training_step_may_have_any_name():
    expected = learnt(Positional)
    callback = TidemarkCallback("85%")
    assert learnt(Positional, callback) == expected and callback.session.counters.recomputed > 0


class Interrupts(lightning.Callback):
    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        raise RuntimeError("interrupted")


def test_an_exception_ends_the_session_and_leaves_the_module_as_it_was():
    callback, module = TidemarkCallback("85%"), Regression()
    trainer = lightning.Trainer(callbacks=[callback, Interrupts()], accelerator="cpu", logger=False)
    with pytest.raises(RuntimeError, match="interrupted"):
        trainer.fit(module, data())
    assert not {"training_step", "log"} & set(vars(module))
    with tidemark.session(callback.session.plan, callback.session.model):  # none is active any more
        pass


class ByHand(Regression):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False


def test_optimization_by_hand_is_refused():
    with pytest.raises(tidemark.CaptureError, match="ByHand optimizes by hand.*automatic_optimization = True"):
        learnt(ByHand, TidemarkCallback("85%"))
