"""Stands in for megatron.training.training (megatron_modules.py), which the package megatron-core has not: train() and train_step() with the
interface and the order of calls that they have in megatron/training/training.py (github.com/NVIDIA/Megatron-LM), without
arguments, timers, checkpoints and logs. What they call is Megatron-Core's own."""

from megatron.core.pipeline_parallel import get_forward_backward_func

MICRO_BATCHES = 4


def train(forward_step_func, model, optimizer, opt_param_scheduler, batches_of_step, valid_data_iterator, config, seen):
    """`batches_of_step`: iterators over the micro-batches of each step, one for each chunk of the model. `seen(losses)` is
    called where Megatron-LM writes its log."""
    for module in model:
        module.train()
    for batches in batches_of_step:
        losses, *_ = train_step(forward_step_func, batches, model, optimizer, opt_param_scheduler, config)
        seen(losses)


def train_step(forward_step_func, data_iterator, model, optimizer, opt_param_scheduler, config):
    for module in model:
        module.zero_grad_buffer()
    optimizer.zero_grad()
    tokens = config.max_sequence_length
    losses = get_forward_backward_func()(
        forward_step_func=forward_step_func,
        data_iterator=data_iterator,
        model=model,
        num_microbatches=MICRO_BATCHES,
        seq_length=tokens,
        micro_batch_size=config.micro_batch_size,
        forward_only=False,
    )
    is_stepped, grad_norm, num_zeros_in_grad = optimizer.step()
    return losses, 0 if is_stepped else 1, grad_norm, num_zeros_in_grad
