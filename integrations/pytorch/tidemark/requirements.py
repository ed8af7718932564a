"""Which PyTorch the package runs in. pyproject.toml and CMakeLists.txt say the same, to pip and where it is built.

The engine stands in PyTorch's dispatcher, whose interface in C++ changes from one minor version to the next.
"""

import re

SERIES = ((2, 9), (2, 11))
NAMES = " or ".join(f"{major}.{minor}" for major, minor in SERIES)


def check_torch(version, built_for=None):
    """ImportError where `version` of PyTorch is not one that the package can be built for, or, given, not the one that
    it was built for."""
    found = re.match(r"(\d+)\.(\d+)", version)
    if not found or (int(found[1]), int(found[2])) not in SERIES:
        raise ImportError(f"tidemark needs PyTorch {NAMES}, and this is {version}")
    if built_for is not None and built_for.partition("+")[0] != version.partition("+")[0]:
        raise ImportError(
            f"tidemark was built for PyTorch {built_for}, and this is {version}; install it again: "
            f"pip install --force-reinstall --no-deps --no-build-isolation integrations/pytorch"
        )
