"""Models that people train, in sizes that take a tenth of a second a step, each with batches as its users make them
(padded, from collators), a loss, the blocks that FSDP shards, the layers that tensor parallelism splits, and itself cut
into stages for pipelines.

Each model is called with the fields of a batch and returns what its loss is made of; a stage but the first takes the hidden
states of the one before.
"""

import torch
from torch import nn
from torch.nn.functional import cross_entropy

ROWS, LENGTH, WIDTH, LAYERS, WORDS, CLASSES = 16, 64, 128, 4, 256, 8
_HEADS = 4


class Task:
    column, row = (), ()  # names of the linear layers that tensor parallelism splits, by output and by input

    def model(self):
        raise NotImplementedError

    def stage(self, number, count):
        """The part of the model that is stage `number`, with the parameters that the whole would have."""
        raise NotImplementedError

    def batch(self, seed):
        raise NotImplementedError

    def blocks(self, model):
        raise NotImplementedError

    def loss(self, output, batch):
        raise NotImplementedError

    def logits(self, output):
        return output if isinstance(output, torch.Tensor) else output.logits

    shared = ("attention_mask",)  # fields that every stage gets


class Decoder(Task):
    """Of transformers: sentences of all lengths, padded by a collator."""

    column, row = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"), ("o_proj", "down_proj")

    def batch(self, seed):
        from transformers import DataCollatorForSeq2Seq

        random = torch.Generator().manual_seed(seed)
        lengths = torch.randint(LENGTH // 3, LENGTH + 1, (ROWS,), generator=random).tolist()
        lengths[0] = LENGTH
        found = []
        for length in lengths:
            words = torch.randint(3, WORDS, (length,), generator=random).tolist()
            found.append({"input_ids": words, "attention_mask": [1] * length, "labels": words})
        return dict(DataCollatorForSeq2Seq(_Padding(), padding=True)(found))

    def loss(self, output, batch):
        logits = self.logits(output)
        return cross_entropy(logits[:, :-1].flatten(0, 1), batch["labels"][:, 1:].flatten(), ignore_index=-100)

    def model(self):
        return self.made(LAYERS)

    def blocks(self, model):
        return model.model.layers

    def body(self, model):
        return model.model

    def stage(self, number, count):
        model = self.model()
        body = self.body(model)
        first, last = LAYERS * number // count, LAYERS * (number + 1) // count
        body.layers = nn.ModuleList(list(body.layers)[first:last])
        for index, layer in enumerate(body.layers):
            layer.self_attn.layer_idx = index
        return self.ended(model, number, count)

    def ended(self, model, number, count):
        if number + 1 < count:
            self.body(model).norm = nn.Identity()
            model.lm_head = nn.Identity()
        return DecoderStage(model, number == 0)


class DecoderStage(nn.Module):
    def __init__(self, model, is_first):
        super().__init__()
        self.model, self.is_first = model, is_first

    def forward(self, x, attention_mask=None):
        given = {"input_ids": x} if self.is_first else {"inputs_embeds": x}
        return self.model(**given, attention_mask=attention_mask, use_cache=False).logits


class _Padding:
    """What a collator takes for a tokenizer."""

    padding_side, pad_token_id = "right", 0

    def pad(self, features, **_):
        longest = max(len(f["input_ids"]) for f in features)
        filled = {"input_ids": 0, "attention_mask": 0}
        out = {k: [f[k] + [v] * (longest - len(f[k])) for f in features] for k, v in filled.items()}
        return {k: torch.tensor(v) for k, v in out.items()}


_SIZES = {
    **{"vocab_size": WORDS, "hidden_size": WIDTH, "intermediate_size": 3 * WIDTH, "num_attention_heads": _HEADS},
    **{"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "use_cache": False, "tie_word_embeddings": False},
}


class Llama(Decoder):
    def made(self, layers):
        from transformers import LlamaConfig, LlamaForCausalLM

        return LlamaForCausalLM(LlamaConfig(**_SIZES, num_hidden_layers=layers, num_key_value_heads=2))


class Mixtral(Decoder):
    column, row = ("q_proj", "k_proj", "v_proj"), ("o_proj",)

    def made(self, layers):
        from transformers import MixtralConfig, MixtralForCausalLM

        mixture = {"num_local_experts": 4, "num_experts_per_tok": 2, "num_key_value_heads": 2}
        return MixtralForCausalLM(MixtralConfig(**_SIZES, **mixture, num_hidden_layers=layers))


class Qwen2Moe(Decoder):
    column, row = Mixtral.column, Mixtral.row

    def made(self, layers):
        from transformers import Qwen2MoeConfig, Qwen2MoeForCausalLM

        mixture = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": WIDTH}
        shared = {"shared_expert_intermediate_size": WIDTH, "num_key_value_heads": 2}
        return Qwen2MoeForCausalLM(Qwen2MoeConfig(**_SIZES, **mixture, **shared, num_hidden_layers=layers))


class DeepSeek(Decoder):
    column, row = ("q_b_proj", "kv_b_proj"), ("o_proj",)

    def made(self, layers):
        from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

        attention = {"q_lora_rank": 32, "kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 16, "v_head_dim": 32}
        mixture = {"n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1, "n_shared_experts": 1}
        sizes = {"moe_intermediate_size": WIDTH // 2, "first_k_dense_replace": 1, "num_hidden_layers": layers}
        return DeepseekV3ForCausalLM(DeepseekV3Config(**_SIZES, **attention, **mixture, **sizes))


class Lora(Decoder):
    """Llama, frozen but for adapters of low rank."""

    def made(self, layers):
        return _adapted(Llama().made(layers), ["q_proj", "v_proj", "down_proj"])

    column, row = (), ("o_proj",)

    def blocks(self, model):
        return model.base_model.model.model.layers

    def body(self, model):
        return model.base_model.model.model

    def ended(self, model, number, count):
        if number + 1 < count:
            self.body(model).norm = nn.Identity()
            model.base_model.model.lm_head = nn.Identity()
        return DecoderStage(model, number == 0)


def _adapted(model, names):
    import peft

    return peft.get_peft_model(model, peft.LoraConfig(r=4, target_modules=names, lora_dropout=0.1))


class Gpt2(Decoder):
    column, row = ("lm_head",), ()

    def made(self, layers):
        from transformers import GPT2Config, GPT2LMHeadModel

        sizes = {"vocab_size": WORDS, "n_embd": WIDTH, "n_layer": layers, "n_head": _HEADS, "n_positions": LENGTH}
        names = {"bos_token_id": 1, "eos_token_id": 2, "use_cache": False, "tie_word_embeddings": False}
        return GPT2LMHeadModel(GPT2Config(**sizes, **names))

    def blocks(self, model):
        return model.transformer.h

    def stage(self, number, count):
        model = self.model()
        body = model.transformer
        body.h = nn.ModuleList(list(body.h)[LAYERS * number // count : LAYERS * (number + 1) // count])
        for index, layer in enumerate(body.h):
            layer.attn.layer_idx = index
        if number > 0:
            body.wpe, body.drop = NoPositions(), nn.Identity()
        if number + 1 < count:
            body.ln_f, model.lm_head = nn.Identity(), nn.Identity()
        return DecoderStage(model, number == 0)


class NoPositions(nn.Module):
    """Hidden states of the stage before have them."""

    def forward(self, positions):
        return torch.zeros(*positions.shape, 1)


class Cut(Task):
    """A sequence of parts, each called with what the one before has returned."""

    shared = ()

    def parts(self):
        raise NotImplementedError

    def model(self):
        return Sequence(*self.parts())

    def stage(self, number, count):
        parts = self.parts()
        return Sequence(*parts[len(parts) * number // count : len(parts) * (number + 1) // count])

    def blocks(self, model):
        return [part for part in model if sum(p.numel() for p in part.parameters()) > 1000]

    def loss(self, output, batch):
        return cross_entropy(self.logits(output).flatten(0, -2), batch["labels"].flatten())


class Sequence(nn.Sequential):
    def forward(self, x):
        return super().forward(x)


class Images(Cut):
    def batch(self, seed):
        random = torch.Generator().manual_seed(seed)
        return {
            "x": torch.randn(ROWS, 3, 32, 32, generator=random),
            "labels": torch.randint(CLASSES, (ROWS,), generator=random),
        }


class Vit(Images):
    column, row = ("fc1", "intermediate.dense"), ("fc2", "output.dense")

    def parts(self):
        from transformers import ViTConfig, ViTForImageClassification

        sizes = {"image_size": 32, "patch_size": 4, "hidden_size": WIDTH, "intermediate_size": 4 * WIDTH}
        model = ViTForImageClassification(
            ViTConfig(**sizes, num_hidden_layers=LAYERS, num_attention_heads=_HEADS, hidden_dropout_prob=0.1)
        )
        body = model.vit
        layers = body.layers if hasattr(body, "layers") else body.encoder.layer
        head = nn.Sequential(body.layernorm, First(), nn.Linear(WIDTH, CLASSES))
        return [body.embeddings, *(FirstOf(layer) for layer in layers), head]


class First(nn.Module):
    def forward(self, x):
        return x[:, 0]


class FirstOf(nn.Module):
    """LSTMs, and layers of older transformers, return a tuple. Pipelines send what is contiguous, gradients too."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        if x.requires_grad:
            x.register_hook(torch.Tensor.contiguous)
        out = self.layer(x)
        return out[0].contiguous() if isinstance(out, tuple) else out


class Resnet50(Images):
    column = ("fc",)

    def parts(self):
        from torchvision.models import resnet50

        m = resnet50(num_classes=CLASSES, width_per_group=16)
        begin = nn.Sequential(m.conv1, m.bn1, m.relu, m.maxpool)
        end = nn.Sequential()
        end.add_module("pool", m.avgpool)
        end.add_module("flat", nn.Flatten())
        end.add_module("fc", m.fc)
        return [begin, *m.layer1, *m.layer2, *m.layer3, *m.layer4, end]


class Words(Cut):
    def batch(self, seed):
        random = torch.Generator().manual_seed(seed)
        words = torch.randint(WORDS, (ROWS, LENGTH + 1), generator=random)
        return {"x": words[:, :-1].contiguous(), "labels": words[:, 1:].contiguous()}


class Lstm(Words):
    column = ("head",)

    def parts(self):
        head = nn.Sequential()
        head.add_module("head", nn.Linear(WIDTH, WORDS))
        layers = [FirstOf(nn.LSTM(WIDTH, WIDTH, batch_first=True)) for _ in range(LAYERS)]
        return [nn.Embedding(WORDS, WIDTH), *layers, nn.Dropout(0.1), head]


class Encoder(Words):
    column, row = ("linear1",), ("linear2",)

    def parts(self):
        layers = [nn.TransformerEncoderLayer(WIDTH, _HEADS, 4 * WIDTH, 0.1, batch_first=True) for _ in range(LAYERS)]
        head = nn.Sequential()
        head.add_module("head", nn.Linear(WIDTH, WORDS))
        return [nn.Embedding(WORDS, WIDTH), *layers, head]


TASKS = {
    **{"llama": Llama, "gpt2": Gpt2, "mixtral": Mixtral, "qwen2_moe": Qwen2Moe, "deepseek": DeepSeek, "lora": Lora},
    **{"vit": Vit, "resnet50": Resnet50, "lstm": Lstm, "encoder": Encoder},
}
