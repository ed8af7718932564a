"""Modules of the package depend on each other one way, within functions too."""

import ast
import graphlib
import pathlib

import tidemark


def imports_of(path):
    """Names of the package's modules that a module imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            found |= {node.module.split(".")[0]} if node.module else {name.name for name in node.names}
    return found


def test_no_module_depends_on_itself():
    modules = {path.stem: imports_of(path) for path in pathlib.Path(tidemark.__file__).parent.glob("*.py")}
    assert len(modules) > 40 and "graph" in modules["planning"]
    graphlib.TopologicalSorter(modules).prepare()  # raises CycleError
