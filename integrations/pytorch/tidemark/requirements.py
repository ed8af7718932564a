"""What the package needs of PyTorch."""

import re

OLDEST = (2, 4)


def check_torch(version):
    """ImportError where `version` of PyTorch is too old."""
    found = re.match(r"(\d+)\.(\d+)", version)
    if not found or (int(found[1]), int(found[2])) < OLDEST:
        raise ImportError(f"tidemark needs PyTorch {OLDEST[0]}.{OLDEST[1]} or later, and this is {version}")
