"""Where a session was begun: its process and its thread."""

import os
import threading


class SessionPlace:
    def __init__(self):
        self._pid = self._thread = None
        self.is_open = False  # the session lasts

    def settle(self):
        """Here."""
        self._pid, self._thread = os.getpid(), threading.get_ident()

    def is_this_process(self):
        return self._pid == os.getpid()

    def is_this_thread(self):
        """A child may have been forked in another."""
        return self._thread == threading.get_ident()

    def is_here(self):
        """In the session's own thread, and before its end, which what was imported meanwhile outlives."""
        return self.is_open and self.is_this_thread()
