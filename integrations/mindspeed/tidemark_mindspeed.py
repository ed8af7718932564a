"""Tidemark in a MindSpeed job: `--tidemark-budget SIZE` trains within a budget, `--tidemark-plan FILE` by a plan.

    import mindspeed.features_manager
    import tidemark_mindspeed
    tidemark_mindspeed.register()                 # before the adaptor reads the command line
    import mindspeed.megatron_adaptor

A MindSpeedFeature as MindSpeed declares its own (mindspeed/features_manager/feature.py): it adds the arguments, refuses what
does not go with them, and has tidemark_megatron's wrappers put around Megatron-LM's train() and train_step().
"""

import tidemark_megatron
from mindspeed.features_manager.feature import MindSpeedFeature
from tidemark_megatron import BUDGET, PLAN, TRAINING

# What swaps or recomputes activations by itself.
_RIVALS = ("smart_swap", "swap_attention", "adaptive_recompute_device_swap")


class TidemarkPlanFeature(MindSpeedFeature):
    def __init__(self):
        super().__init__("tidemark-plan", optimization_level=2)

    def register_args(self, parser):
        tidemark_megatron.add_arguments(parser)

    def validate_args(self, args):
        option = _option(args)
        if option is None:
            return
        for name in _RIVALS:
            if getattr(args, name, None):
                tidemark_megatron.refuse(f"--{name.replace('_', '-')} swaps or recomputes by itself; give one of the two", option)
        if getattr(args, "memory_fragmentation", None):
            tidemark_megatron.refuse("--memory-fragmentation brings an allocator of its own; give one of the two", option)
        if (getattr(args, "adaptive_recompute_device_size", None) or -1) > 0:
            why = "--adaptive-recompute-device-size swaps or recomputes by itself; give one of the two"
            tidemark_megatron.refuse(why, option)
        tidemark_megatron.check_plan(args.tidemark_budget, args.tidemark_plan, _rank(args))

    def register_patches(self, patch_manager, args):
        if _option(args) is not None:
            _serve()
            wrappers = tidemark_megatron.Wrappers(_training)
            patch_manager.register_patch(f"{TRAINING}.train", wrappers.train_wrapper)
            patch_manager.register_patch(f"{TRAINING}.train_step", wrappers.train_step_wrapper)


def _serve():
    """The NPU by Tidemark's allocator, where its C++ part was built and the NPU is not in use yet."""
    import tidemark

    try:
        import torch_npu
    except ImportError:
        return
    if not torch_npu.npu.is_initialized() and tidemark.library.npu_shim() is not None:
        torch_npu.npu.memory.change_current_allocator(tidemark.allocator.npu())


def _option(args):
    """The one by which Tidemark is asked for, or None."""
    return PLAN if args.tidemark_plan else BUDGET if args.tidemark_budget else None


def _rank(args):
    return getattr(args, "rank", 0)


def _training(model):
    from megatron.training import get_args

    args = get_args()
    return tidemark_megatron.Training(model, args.tidemark_budget, args.tidemark_plan, _rank(args))


def register(manager=None):
    """Adds the feature to MindSpeed's list, once. `manager`: with a FEATURES_LIST, MindSpeed's own by default."""
    if manager is None:
        from mindspeed.features_manager.features_manager import MindSpeedFeaturesManager as manager
    if not any(isinstance(feature, TidemarkPlanFeature) for feature in manager.FEATURES_LIST):
        manager.FEATURES_LIST.append(TidemarkPlanFeature())
