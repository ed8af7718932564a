"""Constants and source factors fitted to measured seconds, whatever predicts them. See scripts/fit_device for the loss."""

import math
from typing import NamedTuple

from fit_device_lib.constants import CONSTANTS, Unfit
from fit_device_lib.least_squares import minimise

SCALE = 0.05  # of errors in logarithm: beyond it they count by their size, not its square
PRIOR_WIDTH = 0.25  # in logarithm
FACTOR_WIDTH = 0.1
FOLDS = 5
ITERATIONS, FOLD_ITERATIONS = 30, 12
# Sources of one line of code, eager Megatron of 2021 and 2022 and its fork by DeepSpeed: one factor for all of them.
LINES = {"megatron-2021": "eager-megatron", "megatron-2022": "eager-megatron", "vtrain-multi": "eager-megatron"}
SINGLE_RUNS = ("a100-vtrain8",)  # rows of a split key are layouts of a job, not near-copies: each counts


class Row(NamedTuple):
    id: str
    key: str
    source: str
    measured_s: float
    terms: tuple = ()  # of step time that the run has (core/time_term.h)


def fold_of(key):
    """As planner/step_time/split_fold.h: FNV-1a of 64 bits."""
    h = 0xCBF29CE484222325
    for byte in b"fold" + key.encode("utf-8"):
        h = ((h ^ byte) * 0x100000001B3) % 2**64
    return h % FOLDS


def weights_of(rows, name):
    count = {}
    for row in rows:
        count[row.key] = count.get(row.key, 0) + 1
    return [1.0 if name in SINGLE_RUNS else 1 / count[row.key] for row in rows]


def line_of(source):
    return LINES.get(source, source)


def log_factors(errors, weights, sources, base):
    """By line of code: mean of its sources' log errors, outliers damped, drawn to 0. That of the base's is 0."""
    found = {}
    for line in sorted({line_of(s) for s in sources}):
        own = [(e, w) for e, w, s in zip(errors, weights, sources) if line_of(s) == line]
        mean = 0.0
        for _ in range(4 if line != line_of(base) else 0):
            damped = [(e, w / math.sqrt(1 + ((e - mean) / SCALE) ** 2)) for e, w in own]
            mean = math.fsum(e * w for e, w in damped) / (math.fsum(w for _, w in damped) + (SCALE / FACTOR_WIDTH) ** 2)
        found[line] = mean
    return found


def log_errors(rows, predicted):
    return [math.log(row.measured_s / p) for row, p in zip(rows, predicted)]


def residuals(rows, weights, base, predicted, distances):
    """What is squared and added up: a row's is the root of twice its pseudo-Huber loss."""
    errors = log_errors(rows, predicted)
    factors = log_factors(errors, weights, [row.source for row in rows], base)
    found = []
    for row, weight, error in zip(rows, weights, errors):
        e = (error - factors[line_of(row.source)]) / SCALE
        found.append(math.copysign(math.sqrt(2 * weight * (math.sqrt(1 + e * e) - 1)), e))
    return found + [d / PRIOR_WIDTH for d in distances]


class Problem(NamedTuple):
    rows: list
    weights: list
    base: str
    fitted: list  # names
    assumed: dict  # values by name
    predict: object  # list of constants, each by name -> for each the seconds of all rows


def fit(problem, kept, start, iterations):
    """(constants, factors by source) fitted to the rows of these indices."""
    rows = [problem.rows[i] for i in kept]
    weights = [problem.weights[i] for i in kept]
    priors = [math.log(CONSTANTS[n].prior) for n in problem.fitted]

    def constants_at(point):
        return {**problem.assumed, **{n: math.exp(v) for n, v in zip(problem.fitted, point)}}

    def predicted_at(points):
        return [[seconds[i] for i in kept] for seconds in problem.predict([constants_at(p) for p in points])]

    def function(points):
        return [residuals(rows, weights, problem.base, predicted, [v - p for v, p in zip(point, priors)])
                for point, predicted in zip(points, predicted_at(points))]

    low = [math.log(CONSTANTS[n].low) for n in problem.fitted]
    high = [math.log(CONSTANTS[n].high) for n in problem.fitted]
    point = minimise(function, [math.log(start[n]) for n in problem.fitted], low, high, iterations)
    errors = log_errors(rows, predicted_at([point])[0])
    factors = log_factors(errors, weights, [row.source for row in rows], problem.base)
    sources = {row.source for row in problem.rows if line_of(row.source) in factors}
    return constants_at(point), {s: math.exp(factors[line_of(s)]) for s in sorted(sources)}


class Fit(NamedTuple):
    constants: dict
    factors: dict
    folds: list  # (constants, factors) of each fit without a fold
    held_out: list  # seconds of each row by the fit without its fold


def fit_with_folds(problem):
    start = {n: CONSTANTS[n].prior for n in problem.fitted}
    everything = list(range(len(problem.rows)))
    constants, factors = fit(problem, everything, start, ITERATIONS)
    fold = [fold_of(row.key) for row in problem.rows]
    folds, held_out = [], [0.0] * len(fold)
    for out in sorted(set(fold)):
        kept = [i for i in everything if fold[i] != out]
        if not kept:
            raise Unfit("all rows are of one fold; fit to rows of more split keys")
        folds.append(fit(problem, kept, constants, FOLD_ITERATIONS))
        seconds = problem.predict([folds[-1][0]])[0]
        for i in everything:
            if fold[i] == out:
                held_out[i] = seconds[i] * folds[-1][1].get(problem.rows[i].source, 1.0)
    return Fit(constants, factors, folds, held_out)
