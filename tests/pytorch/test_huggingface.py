"""Trainers of Hugging Face within a budget: the same losses and parameters, through the Trainer's own loss."""

import weakref

import pytest
import tidemark
import torch

transformers = pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("accelerate", reason="accelerate is not installed")

from tidemark.huggingface import TidemarkCallback  # noqa: E402
from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification  # noqa: E402


class Images(torch.utils.data.Dataset):
    """Noise in seven classes."""

    def __len__(self):
        return 64

    def __getitem__(self, i):
        return {"pixel_values": torch.randn(3, 64, 64, generator=torch.Generator().manual_seed(i)), "labels": i % 7}


def vision():
    sizes = {"image_size": 64, "patch_size": 8, "hidden_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4}
    return ViTForImageClassification(ViTConfig(**sizes, intermediate_size=512, hidden_dropout_prob=0.1, num_labels=7)), Images()


def adapted():
    """Frozen but for adapters of low rank."""
    peft = pytest.importorskip("peft", reason="peft is not installed")
    model, data = vision()
    found = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj", "query", "value", "fc1"], modules_to_save=["classifier"])
    return peft.get_peft_model(model, found), data


class Sentences(torch.utils.data.Dataset):
    """Of all lengths to 48, padded."""

    def __len__(self):
        return 64

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(i)
        length = 48 - 5 * (i % 6)
        tokens = torch.zeros(48, dtype=torch.long)
        tokens[:length] = torch.randint(3, 90, (length,), generator=generator)
        mask = torch.arange(48) < length
        return {"input_ids": tokens, "attention_mask": mask.long(), "labels": tokens.masked_fill(~mask, -100)}


_SIZES = {"vocab_size": 96, "hidden_size": 96, "intermediate_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4}


def llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**_SIZES, num_key_value_heads=2)), Sentences()


def gpt2():
    sizes = {"vocab_size": 96, "n_embd": 96, "n_layer": 3, "n_head": 4, "bos_token_id": 1, "eos_token_id": 2}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes)), Sentences()


def mixtral():
    mixture = {"num_local_experts": 4, "num_experts_per_tok": 2, "num_key_value_heads": 2}
    return transformers.MixtralForCausalLM(transformers.MixtralConfig(**_SIZES, **mixture)), Sentences()


def qwen2_moe():
    mixture = {"num_experts": 4, "moe_intermediate_size": 96, "shared_expert_intermediate_size": 96}
    config = transformers.Qwen2MoeConfig(**_SIZES, **mixture, num_experts_per_tok=2, num_key_value_heads=2)
    return transformers.Qwen2MoeForCausalLM(config), Sentences()


def deepseek():
    attention = {"q_lora_rank": 32, "kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16}
    mixture = {"n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1}
    config = transformers.DeepseekV3Config(**_SIZES, **attention, **mixture, moe_intermediate_size=64, n_shared_experts=1)
    return transformers.DeepseekV3ForCausalLM(config), Sentences()


MODELS = {"vision": vision, "adapters": adapted}
DECODERS = {"llama": llama, "gpt2": gpt2, "mixtral": mixtral, "qwen2_moe": qwen2_moe, "deepseek": deepseek}
_ROUTED = ("mixtral", "qwen2_moe", "deepseek")


def trainer(build, folder, kind=Trainer, **arguments):
    torch.manual_seed(0)
    model, data = build()
    settings = {"max_steps": 3, "per_device_train_batch_size": 16, "logging_steps": 1, "seed": 1, "report_to": []}
    settings |= {"use_cpu": True, "disable_tqdm": True, "save_strategy": "no"} | arguments
    return kind(model, TrainingArguments(str(folder), **settings), train_dataset=data, eval_dataset=data)


def learnt(run):
    """Losses, and parameters in memory of NumPy's, which no budget counts."""
    run.train()
    losses = [entry.get("loss", entry.get("eval_loss")) for entry in run.state.log_history]
    return losses, [p.detach().numpy().tobytes() for p in run.model.parameters()]


def within(run, budget="75%", **arguments):
    callback = TidemarkCallback(run, budget, **arguments)
    run.add_callback(callback)
    return callback


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"bf16": True, "gradient_accumulation_steps": 2, "label_smoothing_factor": 0.1},
        {"eval_strategy": "steps", "eval_steps": 1},
        pytest.param(
            {"optim": "sgd", "max_grad_norm": 0, "torch_compile": True, "torch_compile_backend": "eager"},
            marks=pytest.mark.skipif(
                not hasattr(torch.compiler, "is_exporting"), reason="transformers is not compiled by this PyTorch"
            ),
        ),
    ],
    ids=["plain", "autocast, accumulation and smoothing", "evaluation between steps", "compiled"],
)
@pytest.mark.parametrize("build", MODELS.values(), ids=MODELS)
def test_trainers_learn_the_same(build, arguments, tmp_path):
    expected = learnt(trainer(build, tmp_path, **arguments))
    run = trainer(build, tmp_path, **arguments)
    callback = within(run)
    assert learnt(run) == expected
    assert callback.session.counters.recomputed > 0 and callback.session.counters.off_plan == 0
    report = callback.session.report()
    assert report.measured_reserved_bytes <= report.budget_bytes


@pytest.mark.parametrize("name", DECODERS)
def test_decoders_learn_the_same_with_padding(name, tmp_path):
    """Which experts are hit, and by how many rows, differs from batch to batch."""
    build = DECODERS[name]
    expected = learnt(trainer(build, tmp_path))
    run = trainer(build, tmp_path)
    link = tidemark.HostLink(1e9, 1e9)
    callback = within(run, "85%" if name in _ROUTED else "60%", host_link=link)
    assert learnt(run) == expected
    done, report = callback.session.counters, callback.session.report()
    assert done.recomputed + done.swapped > 0
    assert done.off_plan == 0 or name in _ROUTED
    assert report.measured_reserved_bytes <= report.budget_bytes


class OwnLoss(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        loss = torch.nn.functional.cross_entropy(outputs.logits, labels) + outputs.logits.square().mean()
        return (loss, outputs) if return_outputs else loss


def test_a_trainer_with_a_loss_of_its_own(tmp_path):
    expected = learnt(trainer(vision, tmp_path, OwnLoss))
    run = trainer(vision, tmp_path, OwnLoss)
    callback = within(run)
    assert learnt(run) == expected
    assert callback.session.counters.recomputed > 0 and callback.session.counters.off_plan == 0


def test_no_batch_is_lost_and_no_random_number_drawn(tmp_path):
    """What the loop would see next is the same with the callback as without."""
    drawn = []
    for is_planned in (False, True):
        run = trainer(vision, tmp_path, max_steps=2)
        if is_planned:
            within(run)
        run.train()
        drawn.append(torch.rand(1).item())
    assert drawn[0] == drawn[1]


def test_the_batch_that_is_planned_for_may_be_given(tmp_path):
    run = trainer(vision, tmp_path)
    batch = run.data_collator([run.train_dataset[i] for i in range(24)])
    callback = within(run, "100%", batch=batch)
    run.train()
    assert callback.session.plan.graph.storages[_images(callback.session.plan.graph)].bytes == 24 * 3 * 64 * 64 * 4


def _images(graph):
    inputs = [i for i, storage in enumerate(graph.storages) if storage.role == "input"]
    return max(inputs, key=lambda i: graph.storages[i].bytes)


class Interrupts(transformers.TrainerCallback):
    def on_step_end(self, *_, **__):
        raise KeyboardInterrupt


def test_no_batch_of_the_first_step_is_kept(tmp_path):
    """Beside those of later steps, for which alone there is room."""
    batches, alive = [], []

    class Watched(Trainer):
        def training_step(self, model, inputs, *args, **kwargs):
            alive.append(sum(batch() is not None for batch in batches))
            batches.append(weakref.ref(inputs["pixel_values"]))
            return super().training_step(model, inputs, *args, **kwargs)

    run = trainer(vision, tmp_path, kind=Watched)
    within(run)
    run.train()
    assert len(alive) > 3 and alive[-1] == 0


def test_an_exception_ends_the_session_and_training_may_begin_again(tmp_path):
    run = trainer(vision, tmp_path)
    callback = within(run)
    run.add_callback(Interrupts)
    with pytest.raises(KeyboardInterrupt):
        run.train()
    first = callback.session
    assert tidemark.allocator.statistics().limit_bytes > first.plan.budget_bytes
    run.remove_callback(Interrupts)
    run.train()
    assert callback.session is not first and callback.session.counters.recomputed > 0
    with tidemark.session(callback.session.plan):  # none is active any more
        pass


def test_too_small_a_budget_is_said_before_the_first_step(tmp_path):
    run = trainer(vision, tmp_path)
    within(run, "10MiB")
    with pytest.raises(tidemark.InfeasibleError, match=r"would do: budget=\d+"):
        run.train()
    assert run.state.global_step == 0
