"""Modules of Megatron-LM that no package brings, as tests stand in for them: where megatron.training.training is, and, without a
pipeline and a schedule, its train() and train_step()."""

import sys
import types

import torch

TRAINING = "megatron.training.training"


def stand_in(training, put=sys.modules.__setitem__):
    """`training` is megatron.training.training from here on. `put`: of modules, by name."""
    home = types.ModuleType(TRAINING.rpartition(".")[0])
    home.training = training
    put(home.__name__, home)
    put(TRAINING, training)
    return home


def plain_training():
    """A module with the two functions, which are looked up in it as they are called: integrations put others there."""
    module = types.ModuleType(TRAINING)

    def train(forward_step_func, model, optimizer, iterator, steps):
        return [module.train_step(forward_step_func, iterator, model, optimizer, None, None)[0] for _ in range(steps)]

    module.train, module.train_step = train, train_step
    return module


def train_step(forward_step_func, data_iterator, model, optimizer, opt_param_scheduler, config):
    optimizer.zero_grad()
    loss = forward_step_func(data_iterator, model[0])
    loss.backward()
    optimizer.step()
    return {"lm loss": loss.item()}, 0


class Wrapped(torch.nn.Module):
    """As Float16Module and DistributedDataParallel of Megatron."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *args):
        return self.module(*args)
