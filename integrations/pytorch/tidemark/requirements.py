"""Which PyTorch the package runs in; building_torch.py asks it for CMake and for pip.

The engine stands in PyTorch's dispatcher, whose interface in C++ changes between minor versions, and not within one.
"""

import re

OLDEST, NEWEST = (2, 6), (2, 15)
NAMES = f"{OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"
RANGE = f"torch>={OLDEST[0]}.{OLDEST[1]},<{NEWEST[0]}.{NEWEST[1] + 1}"


def series_of(version):
    """(major, minor); None of what is no version."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else None


def check_torch(version, cxx11_abi=True, built_for=None):
    """ImportError where `version` of PyTorch is not one that the package can be built for, or is not of the minor version,
    and of the C++ ABI, that it was built for: (version, cxx11_abi), None where that is not known."""
    series = series_of(version)
    if series is None or not OLDEST <= series <= NEWEST:
        raise ImportError(f"tidemark needs PyTorch {NAMES}, and this is {version}; pip install '{RANGE}' gets one")
    if built_for is None:
        return
    again = "or build it again: pip install --force-reinstall --no-deps --no-build-isolation integrations/pytorch"
    if series_of(built_for[0]) != series:
        minor = ".".join(map(str, series))
        raise ImportError(
            f"tidemark was built for PyTorch {built_for[0]}, and this is {version}; install its wheel for {minor}, {again}"
        )
    if built_for[1] != cxx11_abi:
        raise ImportError(
            f"tidemark was built for PyTorch {built_for[0]} with _GLIBCXX_USE_CXX11_ABI={built_for[1]:d}, and this is "
            f"{version} with {cxx11_abi:d}; install the PyTorch that it was built for, {again}"
        )
