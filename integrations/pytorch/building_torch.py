"""The PyTorch that the building Python imports: CMakeLists.txt compiles for it, and the metadata of the wheel names it.

    python building_torch.py    its folder, its version, and its _GLIBCXX_USE_CXX11_ABI, one a line

Where it is none that the package can be built for, the reason is on stderr and the exit status 1.
"""

import importlib.util
import os
import pathlib


def _requirements():
    """Of the package, which cannot be imported before it is built."""
    place = pathlib.Path(__file__).parent / "tidemark" / "requirements.py"
    spec = importlib.util.spec_from_file_location("tidemark_requirements", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def building_torch():
    """The module; SystemExit, which pip and CMake print as it stands, where there is none to build for."""
    requirements = _requirements()
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # torch_npu's import works with CANN's libraries alone
    try:
        import torch
    except ImportError as error:
        raise SystemExit(
            f"tidemark is built for the PyTorch that is there, and it cannot be imported ({error}): pip install "
            f"'{requirements.RANGE}' scikit-build-core, and build with --no-build-isolation"
        ) from None
    try:
        requirements.check_torch(torch.__version__)
    except ImportError as error:
        raise SystemExit(str(error)) from None
    return torch


def dynamic_metadata(settings, _project):
    """For scikit-build-core: what is built serves one minor version of PyTorch, which is in its version and required."""
    major, minor = _requirements().series_of(building_torch().__version__)
    return {"version": f"{settings['of']}+torch{major}.{minor}", "dependencies": [f"torch=={major}.{minor}.*"]}


if __name__ == "__main__":
    torch = building_torch()
    print(torch.__path__[0], torch.__version__, int(torch.compiled_with_cxx11_abi()), sep="\n")
