"""The tidemark program, carried by a wheel: `main` becomes it."""

import os
import pathlib
import sys

_ROOT = pathlib.Path(__file__).resolve().parent
PROGRAM = _ROOT / "bin" / "tidemark"  # finds SHARE by its own place
SHARE = _ROOT / "share" / "tidemark"  # devices, models, files for CI


def main():
    """Replaces this process: streams, signals and the exit status are the program's own. Status 2: it cannot be started."""
    try:
        os.execv(PROGRAM, ["tidemark", *sys.argv[1:]])
    except OSError as error:
        print(f"tidemark: {PROGRAM} cannot be started ({error.strerror}); install the wheel again", file=sys.stderr)
        return 2
