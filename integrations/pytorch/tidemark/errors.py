"""What can go wrong, as exceptions. Each message is one sentence that says what was found and what would be right."""


class TidemarkError(RuntimeError):
    """Base of every exception that Tidemark raises itself."""


class BadValueError(TidemarkError, ValueError):
    """An argument has a value that cannot be meant."""


class BadTypeError(TidemarkError, TypeError):
    """An argument is of another type than the function takes."""


class CaptureError(TidemarkError):
    """The step cannot be captured."""


class InfeasibleError(TidemarkError):
    """No schedule fits the budget. `smallest_bytes` is the smallest budget that is known to do, 0 where none is."""

    def __init__(self, message, smallest_bytes=0):
        super().__init__(message)
        self.smallest_bytes = smallest_bytes


class SharedLoaderError(TidemarkError):
    """The rank that reads raised, or the ranks of a SharedLoader lost each other."""


class SessionError(TidemarkError):
    """A session is used wrongly: of another model, in another process, twice at once."""
