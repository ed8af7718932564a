"""Trains a small vision transformer with Hugging Face's Trainer to tell which colour a noisy picture has most of. Half a
minute on a CPU; nothing is downloaded."""

import logging
import tempfile

import torch
from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification

SIZE = 64


class Pictures(torch.utils.data.Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, i):
        picture = torch.randn(3, SIZE, SIZE, generator=torch.Generator().manual_seed(i))
        picture[i % 3] += 0.3
        return {"pixel_values": picture, "labels": i % 3}


def main():
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    torch.manual_seed(0)
    sizes = {"image_size": SIZE, "patch_size": 8, "hidden_size": 192, "num_hidden_layers": 4, "num_attention_heads": 4}
    model = ViTForImageClassification(ViTConfig(**sizes, intermediate_size=768, num_labels=3))
    arguments = TrainingArguments(
        tempfile.mkdtemp(),
        use_cpu=True,
        per_device_train_batch_size=32,
        learning_rate=3e-4,
        max_steps=32,
        logging_steps=8,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    trainer = Trainer(model, arguments, train_dataset=Pictures())
    trainer.train()


if __name__ == "__main__":
    main()
