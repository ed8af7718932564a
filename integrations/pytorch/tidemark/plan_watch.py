"""What a user sees of a search for a plan, and how it is ended: a bar, a time limit, Ctrl-C."""

import sys
import threading
import time

from . import library

_PAUSE = 0.05  # seconds between two looks
_FIRST = 0.5  # before a bar is drawn: most searches are over by then
_WIDTH = 40


def call_watched(call, time_limit, progress):
    """Runs `call(watch)`, which plans without Python's lock and asks `watch` whether to stop; see planning.plan().

    It runs in a thread of its own, so that this one hears of signals and may call what the user gave. What it raises,
    or what is raised here meanwhile, is raised here once it has ended.
    """
    report, finish = _report_of(progress)
    search = _Search(call, time_limit)
    thread = threading.Thread(target=search.run, name="tidemark-plan")  # no daemon: the planner's threads call Python
    thread.start()
    try:
        while not search.ended.wait(_PAUSE):
            if report is not None:
                report(search.share)
        if report is not None and search.error is None:
            report(1.0)
    finally:
        search.stop = True  # no more than a few milliseconds from here
        thread.join()
        finish()
    if search.error is not None:
        raise search.error


class _Search:
    def __init__(self, call, time_limit):
        self._call = call
        self._end = None if time_limit is None else time.monotonic() + time_limit
        self.ended = threading.Event()
        self.share = 0.0
        self.stop = False
        self.error = None

    def run(self):
        watch = library.PlanWatch(self._watch)
        try:
            self._call(watch)
        except BaseException as error:
            self.error = error
        finally:
            self.ended.set()

    def _watch(self, _user, share):
        self.share = share
        if self.stop or not threading.main_thread().is_alive():  # the plan is not wanted any more
            return True
        return self._end is not None and time.monotonic() >= self._end


def _report_of(progress):
    """A function of the share done, or None, and one that cleans up behind it."""
    if callable(progress):
        return progress, lambda: None
    stream = sys.stderr
    if progress is None:
        progress = stream is not None and stream.isatty()
    if not progress:
        return None, lambda: None
    bar = _Bar(stream)
    return bar.draw, bar.wipe


class _Bar:
    def __init__(self, stream):
        self._stream = stream
        self._begin = time.monotonic()
        self._drawn = False

    def draw(self, share):
        if not self._drawn and time.monotonic() - self._begin < _FIRST:
            return
        full = round(_WIDTH * share)
        self._stream.write(f"\rplanning [{'#' * full}{'.' * (_WIDTH - full)}] {100 * share:3.0f} %")
        self._stream.flush()
        self._drawn = True

    def wipe(self):
        if self._drawn:
            self._stream.write("\r" + " " * (_WIDTH + 17) + "\r")
            self._stream.flush()
