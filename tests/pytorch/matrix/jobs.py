"""Engines that people train with, as jobs: `step(n)` trains on batch n and returns what was learnt. Those with a training
loop of their own (trainer, lightning) are Runs."""

import contextlib
import functools
import hashlib

import torch
from tasks import TASKS
from torch import nn
from torch.distributed.tensor import DTensor

MICRO_BATCHES = 4  # of pipelines
_ROUTED = ("mixtral", "qwen2_moe", "deepseek")


def digest(tensor):
    whole = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return hashlib.sha1(whole.detach().reshape(-1).view(torch.uint8).numpy().tobytes()).hexdigest()


def optimizer_of(mode, parameters):
    parameters = [p for p in parameters if p.requires_grad]
    parts = [p for p in parameters if isinstance(p, DTensor)], [p for p in parameters if not isinstance(p, DTensor)]
    parameters = [{"params": part} for part in parts if part]  # kernels of many tensors take one kind
    if mode == "sgd":
        return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)
    kind = {"fused": True} if mode == "adamw_fused" else {"foreach": True}
    return torch.optim.AdamW(parameters, lr=1e-3, **kind)


class Job:
    """A loop of the user's own. `mode`: one of cover.MODES."""

    def __init__(self, name, mode, rank=0, world=1):
        self.name, self.task, self.mode = name, TASKS[name](), mode
        self.rank, self.world = rank, world
        self.parts = 2 if mode == "accumulation" else 1
        self.model = self.made()
        self.optimizer = optimizer_of(mode, self.model.parameters())

    def made(self):
        return self.task.model()

    def autocast(self):
        is_on = self.mode == "autocast"
        return torch.autocast("cpu", torch.bfloat16) if is_on else contextlib.nullcontext()

    def step(self, number):
        losses = [self.forward_backward(number * self.parts + part).item() for part in range(self.parts)]
        return [*losses, *self.stepped()]

    def stepped(self):
        seen = [digest(p.grad) for p in self.model.parameters() if p.grad is not None]
        self.optimizer.step()
        self.optimizer.zero_grad()
        return seen

    def fields(self, number):
        batch = self.task.batch(number)
        return {name: value for name, value in batch.items() if name != "labels"}, batch

    def forward_backward(self, number):
        fields, batch = self.fields(number)
        with self.autocast():
            loss = self.loss(self.model(**fields), batch)
        loss.backward()
        return loss.detach()

    def loss(self, output, batch):
        return self.task.loss(output, batch) / self.parts

    def recorded(self):
        """What is told of the model whose forward is called."""
        return self.model


class Loop(Job):
    """Through tidemark.fit()."""

    def fit(self, budget):
        import tidemark

        fields, batch = self.fields(0)
        with_autocast = {"autocast": self.autocast} if self.mode == "autocast" else {}
        loss = functools.partial(self.loss, batch=batch)
        return tidemark.fit(
            self.model, fields, loss, self.optimizer, budget, micro_batches=self.parts, host_link=link(), holds_output=False, **with_autocast
        )


class Accelerated(Loop):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        from accelerate import Accelerator
        from accelerate.state import AcceleratorState

        AcceleratorState._reset_state(reset_partial_state=True)
        precision = {"mixed_precision": "bf16"} if self.mode == "autocast" else {}
        self.accelerator = Accelerator(cpu=True, gradient_accumulation_steps=self.parts, **precision)
        self.inner = self.model
        self.model, self.optimizer = self.accelerator.prepare(self.model, self.optimizer)

    def forward_backward(self, number):
        fields, batch = self.fields(number)
        with self.accelerator.accumulate(self.model):
            loss = self.task.loss(self.model(**fields), batch)
            self.accelerator.backward(loss)
        return loss.detach()

    def fit(self, budget):
        import tidemark.accelerate

        fields, batch = self.fields(0)
        loss = functools.partial(self.task.loss, batch=batch)
        return tidemark.accelerate.fit(
            self.accelerator, self.model, fields, loss, self.optimizer, budget, host_link=link(), holds_output=False
        )


class Checkpointed(Job):
    """Blocks in torch.utils.checkpoint already: every other one."""

    def made(self):
        model = self.task.model()
        for block in list(self.task.blocks(model))[::2]:
            block.forward = _checkpointed(block.forward)
        return model


def _checkpointed(forward):
    from torch.utils.checkpoint import checkpoint

    @functools.wraps(forward)
    def wrapped(*args, **kwargs):
        return checkpoint(forward, *args, use_reentrant=False, **kwargs)

    return wrapped


class Compiled(Job):
    """Every block by torch.compile."""

    def made(self):
        model = self.task.model()
        for block in self.task.blocks(model):
            block.compile()
        return model


class Ddp(Job):
    def made(self):
        unused = {"find_unused_parameters": True} if self.name in _ROUTED else {}
        return nn.parallel.DistributedDataParallel(self.task.model(), **unused)

    def fields(self, number):
        return super().fields(number * self.world + self.rank)


class Fsdp2(Ddp):
    def made(self):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        model, mesh = self.task.model(), init_device_mesh("cpu", (self.world,))
        for block in self.task.blocks(model):
            fully_shard(block, mesh=mesh)
        return fully_shard(model, mesh=mesh)


class TensorParallel(Job):
    def made(self):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Replicate
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        model, mesh = self.task.model(), init_device_mesh("cpu", (self.world,))
        plan = {}
        for name, module in model.named_modules():
            if not isinstance(module, nn.Linear):
                continue
            if name.endswith(self.task.row or "\n"):
                split = {} if self.task.column else {"input_layouts": Replicate()}
                plan[name] = RowwiseParallel(**split)
            elif name.endswith(self.task.column or "\n"):
                whole = {} if self.task.row else {"output_layouts": Replicate()}
                plan[name] = ColwiseParallel(**whole)
        if not plan:
            raise NotImplementedError("no linear layer to split")
        return parallelize_module(model, mesh, plan)


class Pipeline(Job):
    """1F1B: one stage a process."""

    chunks = 1

    def made(self):
        stages = self.world * self.chunks
        return nn.ModuleList(self.task.stage(self.rank + self.world * c, stages) for c in range(self.chunks))

    def __init__(self, *arguments):
        super().__init__(*arguments)
        from torch.distributed.pipelining import PipelineStage

        self.parts, count = 1, self.world * self.chunks
        self.micro_batches = MICRO_BATCHES * (2 if self.mode == "accumulation" else 1)
        places = [self.rank + self.world * c for c in range(self.chunks)]
        device = torch.device("cpu")
        stages = [PipelineStage(part, place, count, device) for part, place in zip(self.model, places, strict=True)]
        self.is_first, self.is_last = places[0] == 0, places[-1] == count - 1
        self.schedule = self.scheduled(stages)

    def scheduled(self, stages):
        from torch.distributed.pipelining import Schedule1F1B

        return Schedule1F1B(stages[0], self.micro_batches, loss_fn=self.loss_of)

    def loss_of(self, output, labels):
        return self.task.loss(output, {"labels": labels})

    def step(self, number):
        fields, batch = self.fields(number)
        first = next(value for name, value in fields.items() if name not in self.task.shared)
        shared = {name: fields[name] for name in self.task.shared}
        losses = []
        ends = {"target": batch["labels"], "losses": losses} if self.is_last else {}
        with self.autocast():
            self.schedule.step(*((first,) if self.is_first else ()), **ends, **shared)
        return [*(loss.item() for loss in losses), *self.stepped()]


class Interleaved(Pipeline):
    chunks = 2

    def scheduled(self, stages):
        from torch.distributed.pipelining import ScheduleInterleaved1F1B

        return ScheduleInterleaved1F1B(stages, self.micro_batches, loss_fn=self.loss_of)


class Run:
    """Trains by itself: `learnt(budget)` returns losses and parameters and, where there is a budget, the session."""

    STEPS = 4

    def __init__(self, name, mode, *_):
        self.name, self.task, self.mode = name, TASKS[name](), mode
        self.parts = 2 if mode == "accumulation" else 1

    def batches(self):
        return Batches(self.task, self.STEPS * self.parts)


class Batches(torch.utils.data.Dataset):
    """Made as they are asked for: on a CPU a set of data would be memory of the device."""

    def __init__(self, task, count):
        self._task, self._count = task, count

    def __len__(self):
        return self._count

    def __getitem__(self, number):
        if not 0 <= number < self._count:
            raise IndexError(number)
        return self._task.batch(number)


class TrainerRun(Run):
    def learnt(self, budget, folder):
        from tidemark.huggingface import TidemarkCallback
        from transformers import Trainer, TrainingArguments

        ways = {
            "adamw_fused": {"optim": "adamw_torch_fused"},
            "adamw_foreach": {"optim": "adamw_torch"},
            "sgd": {"optim": "sgd", "max_grad_norm": 0},
            "autocast": {"bf16": True},
            "accumulation": {"gradient_accumulation_steps": 2},
        }
        settings = {"max_steps": self.STEPS, "per_device_train_batch_size": 1, "logging_steps": 1, "report_to": []}
        settings |= {"use_cpu": True, "disable_tqdm": True, "save_strategy": "no", "seed": 1} | ways[self.mode]
        settings["remove_unused_columns"] = False
        model = WithLoss(self.task)
        run = Trainer(
            model,
            TrainingArguments(str(folder), **settings),
            train_dataset=self.batches(),
            data_collator=lambda items: items[0],
        )
        callback = None
        if budget is not None:
            callback = TidemarkCallback(run, budget, host_link=link())
            run.add_callback(callback)
        run.train()
        losses = [entry["loss"] for entry in run.state.log_history if "loss" in entry]
        return [*losses, *(digest(p) for p in model.parameters())], callback and callback.session


class WithLoss(nn.Module):
    """As the models of transformers are: the labels come along, and the loss is among the outputs."""

    accepts_loss_kwargs = False  # Trainer's, which not all of the models take

    def __init__(self, task):
        super().__init__()
        self.task, self.model = task, task.model()

    def forward(self, labels, **fields):
        output = self.model(**fields)
        return {"loss": self.task.loss(output, {"labels": labels}), "logits": self.task.logits(output)}


class LightningRun(Run):
    def learnt(self, budget, folder):
        import lightning
        from tidemark.lightning import TidemarkCallback

        class Module(lightning.LightningModule):
            def __init__(self, task, mode):
                super().__init__()
                self.inner, self.kind, self.how = task.model(), task, mode
                self.losses = []

            def training_step(self, batch, batch_idx):
                fields = {name: value for name, value in batch.items() if name != "labels"}
                return self.kind.loss(self.inner(**fields), batch)

            def on_train_batch_end(self, outputs, batch, batch_idx):
                self.losses.append(outputs["loss"].item())

            def configure_optimizers(self):
                return optimizer_of(self.how, self.inner.parameters())

        module = Module(self.task, self.mode)
        callback = None if budget is None else TidemarkCallback(budget, host_link=link())
        settings = {"accelerator": "cpu", "logger": False, "enable_checkpointing": False, "max_epochs": 1}
        settings |= {"enable_progress_bar": False, "enable_model_summary": False, "accumulate_grad_batches": self.parts}
        if self.mode == "autocast":
            settings["precision"] = "bf16-mixed"
        trainer = lightning.Trainer(default_root_dir=folder, callbacks=[callback] if callback else [], **settings)
        loader = torch.utils.data.DataLoader(self.batches(), batch_size=None)
        trainer.fit(module, loader)
        return [*module.losses, *(digest(p) for p in module.parameters())], callback and callback.session


def link():
    """To host memory: so quick that copies are worth it on a CPU as well."""
    from tidemark import HostLink

    return HostLink(1e10, 1e10, 0)


JOBS = {
    "loop": Loop,
    "accelerate": Accelerated,
    "checkpointed": Checkpointed,
    "compiled": Compiled,
    "ddp": Ddp,
    "fsdp2": Fsdp2,
    "tensor_parallel": TensorParallel,
    "pipeline_1f1b": Pipeline,
    "pipeline_interleaved": Interleaved,
}
RUNS = {"trainer": TrainerRun, "lightning": LightningRun}
PROCESSES = {"ddp": 2, "fsdp2": 2, "tensor_parallel": 2, "pipeline_1f1b": 2, "pipeline_interleaved": 2}
