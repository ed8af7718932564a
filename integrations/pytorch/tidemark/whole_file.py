"""A file that is written whole, or not at all."""

import contextlib
import os
import stat


def write_whole(path, content):
    """`content`: bytes. Links are followed; what is no regular file, as a pipe, is written to as it stands. Raises OSError."""
    target = os.path.realpath(path)
    if os.path.exists(target) and not stat.S_ISREG(os.stat(target).st_mode):
        with open(target, "wb") as out:
            out.write(content)
        return
    part = f"{target}.{os.getpid()}.part"
    try:
        with open(part, "wb") as out:
            out.write(content)
        os.replace(part, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None  # of the kind that the number says
