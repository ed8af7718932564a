"""Tidemark in a MindSpeed job: `--tidemark-plan FILE` trains by a plan.

    import mindspeed.features_manager
    import tidemark_mindspeed
    tidemark_mindspeed.register()                 # before the adaptor reads the command line
    import mindspeed.megatron_adaptor

A MindSpeedFeature as MindSpeed declares its own (mindspeed/features_manager/feature.py): it adds the argument, refuses what
does not go with it, and puts a session around megatron.training.training.train, whose model the plan was made for.
"""

import contextlib
import functools
import logging
import os
import sys

from mindspeed.features_manager.feature import MindSpeedFeature

OPTION = "--tidemark-plan"
_TRAIN = "megatron.training.training.train"

# What swaps or recomputes activations by itself.
_RIVALS = ("smart_swap", "swap_attention", "adaptive_recompute_device_swap")


def refuse(why):
    """One line on stderr and exit status 2, as for any argument that is wrong."""
    print(f"{os.path.basename(sys.argv[0])}: error: {OPTION}: {why}", file=sys.stderr)
    raise SystemExit(2)


def path_of(args):
    """The plan of this process: {rank} in FILE is its rank, and {stage} its stage of the pipeline."""
    values = {"rank": getattr(args, "rank", 0)}
    if "{stage}" in args.tidemark_plan:
        values["stage"] = _stage()
    try:
        return args.tidemark_plan.format(**values)
    except (KeyError, IndexError, ValueError):
        return refuse(f"{args.tidemark_plan!r}: in braces there may be {{rank}} or {{stage}}, and nothing else")


def _stage():
    from megatron.core import parallel_state

    return parallel_state.get_pipeline_model_parallel_rank()


class TidemarkPlanFeature(MindSpeedFeature):
    def __init__(self):
        super().__init__("tidemark-plan", optimization_level=2)

    def register_args(self, parser):
        group = parser.add_argument_group(title=self.feature_name)
        group.add_argument(
            OPTION,
            metavar="FILE",
            default=None,
            help="Train by this plan of Tidemark's; {rank} and {stage} in it are the process's rank and pipeline stage.",
        )

    def validate_args(self, args):
        if not getattr(args, self.feature_name, None):
            return
        for name in _RIVALS:
            if getattr(args, name, None):
                refuse(f"--{name.replace('_', '-')} swaps or recomputes by itself; give one of the two")
        if (getattr(args, "adaptive_recompute_device_size", None) or -1) > 0:
            refuse("--adaptive-recompute-device-size swaps or recomputes by itself; give one of the two")
        if (getattr(args, "virtual_pipeline_model_parallel_size", None) or 1) > 1:
            refuse("a process with several model chunks (a virtual pipeline) is not supported")
        if "{stage}" not in args.tidemark_plan:  # which is known once training begins
            _check_file(path_of(args))

    def register_patches(self, patch_manager, args):
        if getattr(args, self.feature_name, None):
            patch_manager.register_patch(_TRAIN, train_wrapper)


def _check_file(path):
    import tidemark

    try:
        tidemark.Plan.load(path)
    except (OSError, tidemark.TidemarkError) as error:
        refuse(_reason(path, error))


def _reason(path, error):
    said = " ".join(str(error).split())
    return said if path in said else f"{path}: {said}"


def module_of(model):
    """What was captured: the one chunk of the process, without what Megatron wraps around it."""
    chunks = list(model) if isinstance(model, (list, tuple)) else [model]
    if len(chunks) != 1:
        refuse(f"this process has {len(chunks)} model chunks; one is supported")
    module = chunks[0]
    while hasattr(module, "module"):  # DistributedDataParallel, Float16Module
        module = module.module
    return module


def train_wrapper(train):  # MindSpeed stacks what is called so on the function, and replaces it by anything else
    @functools.wraps(train)
    def trained_by_plan(forward_step_func, model, *args, **kwargs):
        import tidemark
        from megatron.training import get_args

        path = path_of(get_args())
        module = module_of(model)
        with contextlib.ExitStack() as active:
            try:
                session = active.enter_context(tidemark.session(path, module))
            except (OSError, tidemark.TidemarkError) as error:
                refuse(_reason(path, error))
            result = train(forward_step_func, model, *args, **kwargs)
        logging.getLogger("tidemark").info("%s", session.report())
        return result

    return trained_by_plan


def register(manager=None):
    """Adds the feature to MindSpeed's list, once. `manager`: with a FEATURES_LIST, MindSpeed's own by default."""
    if manager is None:
        from mindspeed.features_manager.features_manager import MindSpeedFeaturesManager as manager
    if not any(isinstance(feature, TidemarkPlanFeature) for feature in manager.FEATURES_LIST):
        manager.FEATURES_LIST.append(TidemarkPlanFeature())
