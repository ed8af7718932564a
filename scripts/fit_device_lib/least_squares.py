"""Least squares of a few variables in bounds, in the standard library alone: the same bytes on every machine.

Levenberg-Marquardt with forward differences. The function is asked for many points at once, as one run of what stands
behind it may serve them all: one call for the derivatives of an iteration, one for steps of several dampings.
"""

import math

DAMPINGS = (1e-3, 1e-1, 1.0, 10.0, 100.0)  # tried together, times the scale that the last iteration settled on
STEP = 1e-3  # of forward differences
ENOUGH = 1e-7  # relative gain below which it ends


def half_squares(residuals):
    return 0.5 * math.fsum(r * r for r in residuals)


def solve(matrix, right):
    """x of matrix x = right, by elimination with pivots; None where the matrix is singular."""
    n = len(right)
    rows = [list(matrix[i]) + [right[i]] for i in range(n)]
    for column in range(n):
        pivot = max(range(column, n), key=lambda i: abs(rows[i][column]))
        if abs(rows[pivot][column]) < 1e-300:
            return None
        rows[column], rows[pivot] = rows[pivot], rows[column]
        for i in range(column + 1, n):
            share = rows[i][column] / rows[column][column]
            for j in range(column, n + 1):
                rows[i][j] -= share * rows[column][j]
    x = [0.0] * n
    for i in reversed(range(n)):
        known = math.fsum(rows[i][j] * x[j] for j in range(i + 1, n))
        x[i] = (rows[i][n] - known) / rows[i][i]
    return x


def derivatives(function, point, here, high):
    """Columns of the Jacobian: one a variable. A step that would leave the bounds goes the other way."""
    steps = [STEP if point[i] + STEP <= high[i] else -STEP for i in range(len(point))]
    moved = [[v + (steps[i] if j == i else 0.0) for j, v in enumerate(point)] for i in range(len(point))]
    return [[(b - a) / steps[i] for a, b in zip(here, there)] for i, there in enumerate(function(moved))]


def damped_step(columns, gradient, free, damping):
    """The step over the free variables; the others stay. None where there is none."""
    normal = [[math.fsum(a * b for a, b in zip(columns[i], columns[j])) for j in free] for i in free]
    for k in range(len(free)):
        normal[k][k] += damping * (normal[k][k] or 1.0)  # a variable without effect stays where it is
    x = solve(normal, [-gradient[i] for i in free])
    if x is None:
        return None
    step = [0.0] * len(gradient)
    for i, v in zip(free, x):
        step[i] = v
    return step


def minimise(function, start, low, high, most_iterations):
    """The point in [low, high] with the least sum of squares that is found from `start`.

    `function` takes a list of points and returns a list of residuals for each. Ends when an iteration gains less than
    ENOUGH of the sum, or none of its dampings gains anything.
    """
    point = [min(max(v, a), b) for v, a, b in zip(start, low, high)]
    here = function([point])[0]
    scale = 1.0
    for _ in range(most_iterations):
        columns = derivatives(function, point, here, high)
        gradient = [math.fsum(c * r for c, r in zip(column, here)) for column in columns]
        # What stands at a bound and is pushed beyond it is held there: the step is that of the others.
        free = [i for i, g in enumerate(gradient) if not (point[i] <= low[i] and g > 0) and not (point[i] >= high[i] and g < 0)]
        steps = [(d, damped_step(columns, gradient, free, d * scale)) for d in DAMPINGS] if free else []
        tried = [(d, [min(max(v + s, a), b) for v, s, a, b in zip(point, step, low, high)]) for d, step in steps if step]
        if not tried:
            break
        found = function([p for _, p in tried])
        best = min(range(len(tried)), key=lambda i: (half_squares(found[i]), i))
        gain = half_squares(here) - half_squares(found[best])
        if not gain > 0:
            if scale > 1e6:
                break
            scale *= 1e4
            continue
        enough = gain <= ENOUGH * half_squares(here)
        scale = min(max(scale * tried[best][0], 1e-6), 1e6)
        point, here = tried[best][1], found[best]
        if enough:
            break
    return point
