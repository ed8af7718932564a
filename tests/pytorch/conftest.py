"""The package from the checkout, and one thread: other load on the machine must not turn into waiting."""

import pathlib
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "integrations" / "pytorch"))

torch.set_num_threads(1)
