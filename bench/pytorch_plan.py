"""Question: how long does the plan of a captured step take, and how far is it from a bound, by operations and budget?

Workloads: language models of 900 to 8,000 operations (Llama, GPT-2, Mixtral of the transformers package, PyTorch's encoder),
8 x 1,024 tokens, AdamW, with the modelled costs of two processor cores, and with those of half an A100 and copies to host memory at
12 GB/s. Capture runs no kernel, so widths cost nothing. Bound: the proven one; with copies it leaves the link out and says little.
Goal: 2 s on two cores for 4,000 operations. Method: one run of each, by the clock and by processor time, of
tidemark.planning.solve() alone: reading the step's JSON, searching, packing, checking and writing the plan.

Usage: pytorch_plan.py [--models llama:4,gpt2:12] [--budgets 80,60,40] [--link no,yes]
"""

import argparse
import resource
import time

import tidemark
import torch
from tidemark.cost import ACCELERATOR_RATES
from tidemark.planning import solve
from torch import nn

WIDTH, VOCABULARY, BATCH, TOKENS = 512, 4096, 8, 1024
MODELS = "llama:4,llama:10,llama:20,llama:40,gpt2:12,mixtral:8,encoder:24"


class Language(nn.Module):
    """Tokens to a loss."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        logits = self.model(tokens)
        return nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), tokens.reshape(-1))


class Pretrained(nn.Module):
    """A causal model of transformers, to logits."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(input_ids=tokens, use_cache=False).logits


def encoder(layers):
    layer = nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, batch_first=True)
    stack = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    return nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), stack, nn.Linear(WIDTH, VOCABULARY))


def pretrained(name, layers):
    import transformers

    if name == "gpt2":
        config = transformers.GPT2Config(
            n_embd=WIDTH, n_layer=layers, n_head=8, vocab_size=VOCABULARY, n_positions=2 * TOKENS, attn_implementation="sdpa"
        )
        return Pretrained(transformers.GPT2LMHeadModel(config))
    common = dict(
        hidden_size=WIDTH,
        num_hidden_layers=layers,
        num_attention_heads=8,
        num_key_value_heads=4,
        vocab_size=VOCABULARY,
        attn_implementation="sdpa",
    )
    if name == "llama":
        return Pretrained(transformers.LlamaForCausalLM(transformers.LlamaConfig(intermediate_size=2 * WIDTH, **common)))
    config = transformers.MixtralConfig(intermediate_size=WIDTH, num_local_experts=4, num_experts_per_tok=2, **common)
    return Pretrained(transformers.MixtralForCausalLM(config))


def captured(name, layers, link):
    torch.manual_seed(0)
    model = Language(encoder(layers) if name == "encoder" else pretrained(name, layers)).train()
    tokens = torch.randint(0, VOCABULARY, (BATCH, TOKENS))
    options = {"host_link": tidemark.HostLink(), "rates": ACCELERATOR_RATES} if link else {}
    return tidemark.capture(model, (tokens,), optimizer=torch.optim.AdamW(model.parameters()), **options)


def cpu_seconds():
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--budgets", default="80,60,40")
    parser.add_argument("--link", default="no,yes")
    arguments = parser.parse_args()
    print("| step | ops | link | budget | wall s | user s | added % | bound % |\n|---|--:|---|--:|--:|--:|--:|--:|", flush=True)
    for model in arguments.models.split(","):
        name, layers = model.split(":")
        for link in arguments.link.split(","):
            graph = captured(name, int(layers), link == "yes")
            text, keep_all = graph.to_json(), graph.keep_all_peak_bytes()
            for percent in arguments.budgets.split(","):
                begin, before = time.monotonic(), cpu_seconds()
                answer, _ = solve(text, keep_all * int(percent) // 100)
                wall, user, step = time.monotonic() - begin, cpu_seconds() - before, answer["captured"]
                added = f"{step['added_cost_percent']:.3f}" if answer["fits"] else "does not fit"
                print(
                    f"| {model} | {len(graph.ops)} | {link} | {percent} % | {wall:.1f} | {user:.1f} | {added} | "
                    f"{step['lower_bound_percent']:.3f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
