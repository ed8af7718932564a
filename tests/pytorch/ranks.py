"""Processes of one job, which wait for one another: all of them end when one fails, or takes too long."""

import pathlib
import subprocess
import sys
import time


def said_by(program, arguments, world, folder, timeout=300):
    """What each rank printed. `program`: a file beside this one; `arguments(rank)`: of its command line. Raises
    AssertionError with what they wrote to standard error where one ends with another status than 0, or none for so many
    seconds."""
    command = [sys.executable, "-W", "ignore", pathlib.Path(__file__).with_name(program)]
    outs = [folder / f"rank{rank}.out" for rank in range(world)]
    errors = [folder / f"rank{rank}.err" for rank in range(world)]  # no pipes, which would have to be read in turn
    started = []
    try:
        for rank in range(world):
            with outs[rank].open("w") as out, errors[rank].open("w") as error:
                started.append(subprocess.Popen([*command, *map(str, arguments(rank))], stdout=out, stderr=error))
        deadline = time.monotonic() + timeout
        while any(process.poll() is None for process in started):
            assert time.monotonic() < deadline, _report(f"not done in {timeout} s", errors)
            assert not any(process.poll() for process in started), _report("a process failed", errors)
            time.sleep(0.05)
        assert not any(process.returncode for process in started), _report("a process failed", errors)
    finally:
        for process in started:
            process.kill()
            process.wait()
    return [out.read_text() for out in outs]


def _report(what, errors):
    return "\n".join([what, *(f"rank {rank}:\n{error.read_text()[-4000:]}" for rank, error in enumerate(errors))])
