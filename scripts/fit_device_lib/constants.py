"""The constants of a device by the names of its file, with their priors and the bounds of a fit."""

from typing import NamedTuple


class Constant(NamedTuple):
    prior: float  # as cost::FittedRates has it
    low: float
    high: float
    unit: str = ""


CONSTANTS = {
    "matmul": Constant(0.75, 0.3, 0.95),
    "tile_start": Constant(150, 8, 1500),
    "memory": Constant(0.75, 0.3, 0.85),
    "launch": Constant(18e-6, 1e-6, 1e-4, "us"),
    "intra_link": Constant(0.7, 0.2, 0.95),
    "inter_link": Constant(0.8, 0.1, 0.95),
    "hop": Constant(22e-6, 2e-6, 2e-4, "us"),
    "attention": Constant(0.42, 0.1, 0.95),
    "grouped_matmul": Constant(0.85, 0.2, 1.0),
    "fp8": Constant(0.9, 0.3, 1.0),
}


class Unfit(Exception):
    """What is wrong, and what would be right."""


def number_text(name, value, digits):
    unit = CONSTANTS[name].unit if name in CONSTANTS else ""
    return f"{value * 1e6 if unit else value:.{digits}g}{unit}"
