"""Pictures of whatever has one."""

from . import picture_page
from .errors import BadValueError
from .graph import Graph
from .planning import Plan
from .running import Session


def picture(of, path=None, *, by="role", measured=None):
    """The Picture of a Session, a Plan or a Graph; written to `path` too, HTML or SVG by its name, where one is given.

    by        what the areas are: "role" (parameters, activations...) or "module" (those that hold the most).
    measured  the MeasuredStep that tidemark.measured_step() has filled. Of a session the measured peak is there without.
    """
    if isinstance(of, (Session, Plan)):
        return of.picture(path, by=by, measured=measured)
    if not isinstance(of, Graph):
        raise BadValueError(f"a {type(of).__name__} has no picture; give a session, a plan or a captured graph")
    return picture_page.of_graph(of, by, measured).saved(path)
