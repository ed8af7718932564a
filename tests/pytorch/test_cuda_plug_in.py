"""CUDA's plug-in through PyTorch's own wrapper, which change_current_allocator() installs. No GPU takes part: what the
wrapper calls is called directly (cuda_wrapper.cc), and Tidemark's simulated device stands for the GPU. That a capture
really goes by these calls, and that kernels find their memory, only a GPU shows."""

import pathlib
import subprocess
import sys
import sysconfig
import textwrap

import pytest
import torch

HERE = pathlib.Path(__file__).parent

pytestmark = pytest.mark.skipif(
    not hasattr(torch._C, "_cuda_customAllocator"), reason="this PyTorch is built without CUDA: it has no wrapper"
)


def headers_of_cuda():
    site = pathlib.Path(torch.__file__).parents[1]
    packages = [site / "nvidia" / name / "include" for name in ("cu13", "cuda_runtime")]  # with CUDA 13, and before
    given = [*packages, pathlib.Path("/usr/local/cuda/include")]
    return next((str(place) for place in given if (place / "cuda_runtime_api.h").exists()), None)


@pytest.fixture(scope="module")
def wrapper(tmp_path_factory):
    """The folder of the module cuda_wrapper, compiled against the PyTorch that is there."""
    headers = headers_of_cuda()
    if headers is None:
        pytest.skip("no cuda_runtime_api.h: PyTorch's own headers cannot be compiled")
    place = tmp_path_factory.mktemp("wrapper")
    root = pathlib.Path(torch.__file__).parent
    names = ("torch_cuda", "torch_cpu", "torch_python", "c10_cuda", "c10")
    libraries = [f"-l:lib{name}.so" for name in names]
    includes = (root / "include", root / "include/torch/csrc/api/include", headers, sysconfig.get_paths()["include"])
    command = ["g++", "-std=c++20", "-O0", "-shared", "-fPIC"]
    command += [str(HERE / "cuda_wrapper.cc"), "-o", str(place / "cuda_wrapper.so")]
    command += [part for folder in includes for part in ("-isystem", str(folder))]
    command += [f"-L{root / 'lib'}", *libraries]
    subprocess.run(command, check=True)
    return place


BARE = """
        core = tidemark.allocator.library.core()._name
        bare = torch.cuda.memory.CUDAPluggableAllocator(core, "tidemark_cuda_malloc", "tidemark_cuda_free")
        torch.cuda.memory.change_current_allocator(bare)
"""


def run(wrapper, body, install="torch.cuda.memory.change_current_allocator(tidemark.allocator.cuda())"):
    """In a process of its own: an allocator is installed once and for all."""
    program = textwrap.dedent("""
        import os, sys
        os.environ["TIDEMARK_ALLOCATOR_DEVICE"] = "sim"
        sys.path[:0] = [{wrapper!r}] + {path!r}
        import torch, tidemark
        import cuda_wrapper as cuda
        MIB, GIB, CAPTURED, EAGER, POOL = 1 << 20, 1 << 30, 0x100, 0x200, (7, 0)
    """).format(wrapper=str(wrapper), path=sys.path) + textwrap.dedent(install) + "\n" + textwrap.dedent(body)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stderr


def test_memory_that_runs_out_is_pytorchs_exception_and_no_null_tensor(wrapper):
    said = run(wrapper, """
        held = cuda.malloc(40 * GIB, 0, EAGER)
        assert held != 0
        try:
            cuda.malloc(40 * GIB, 0, EAGER)
        except torch.OutOfMemoryError as error:
            assert "tried to allocate 40.00 GiB" in str(error) and isinstance(error, torch.cuda.OutOfMemoryError)
        else:
            raise SystemExit("a pointer to nothing")
        cuda.free(held)
        cuda.free(cuda.malloc(40 * GIB, 0, EAGER))
        try:
            cuda.malloc(1, 64, EAGER)
        except RuntimeError as error:
            assert "no allocator for device 64" in str(error)
        else:
            raise SystemExit("an index that is none")
    """)
    assert "reset_peak_memory_stats" in said, "what PyTorch's wrapper refuses is said at installation"


def test_eager_work_never_gets_what_a_captured_graph_uses(wrapper):
    run(wrapper, """
        def overlap(a, b):
            return a[0] < b[0] + b[1] and b[0] < a[0] + a[1]

        eager = cuda.malloc(4 * MIB, 0, CAPTURED)
        cuda.free(eager)  # cached: a capture must not find it, nor anybody what the capture leaves
        cuda.begin(0, *POOL, CAPTURED)
        temporary = cuda.malloc(4 * MIB, 0, CAPTURED)
        assert temporary != eager
        other = cuda.malloc(4 * MIB, 0, EAGER)
        assert tidemark.memory_pools("cuda:0")[0]["allocations"] == 1, "eager work beside the capture"
        output = cuda.malloc(4 * MIB, 0, CAPTURED)
        cuda.free(temporary)
        again = cuda.malloc(4 * MIB, 0, CAPTURED)
        assert again == temporary, "in the order of the capture the pool uses memory again"
        cuda.free(again)
        cuda.end(0, *POOL)
        graph = [(temporary, 4 * MIB), (output, 4 * MIB)]
        blocks = [(cuda.malloc(size, 0, stream), size) for size in (4 * MIB, 1000, 2 * MIB)
                  for stream in (CAPTURED, EAGER) for _ in range(20)]
        assert not any(overlap(block, part) for block in blocks for part in graph)
        reserved = tidemark.memory_pools("cuda:0")[0]["reserved_bytes"]
        for block, _ in blocks:
            cuda.free(block)
        tidemark.allocator.library.core().tidemark_cuda_reset()
        assert tidemark.memory_pools("cuda:0")[0]["reserved_bytes"] == reserved, "a replay finds its memory"
        cuda.begin(0, *POOL, CAPTURED)  # a second graph of the same pool
        assert cuda.malloc(4 * MIB, 0, CAPTURED) == temporary
        cuda.end(0, *POOL)
        cuda.release(0, *POOL)
        cuda.release(0, *POOL)
        assert tidemark.memory_pools("cuda:0")[0]["allocations"] == 2, "blocks outlive their graph"
        cuda.free(output)
        cuda.free(temporary)
        assert tidemark.memory_pools("cuda:0") == []
        cuda.free(other)
        tidemark.allocator.library.core().tidemark_cuda_reset()
        assert tidemark.memory_reserved("cuda:0") == 0
    """)


def test_the_wrapper_refuses_neither_null_nor_a_graph_without_pools(wrapper):
    """Why functions of C alone will not do: what docs/c_api.md says of PyTorch."""
    run(wrapper, """
        assert cuda.malloc(100 * GIB, 0, EAGER) == 0, "no exception"
        cuda.begin(0, *POOL, CAPTURED)
        temporary = cuda.malloc(4 * MIB, 0, CAPTURED)
        cuda.free(temporary)
        cuda.end(0, *POOL)
        assert cuda.malloc(4 * MIB, 0, CAPTURED) == temporary, "eager work has what a replay overwrites"
        cuda.release(0, *POOL)
    """, install=BARE)


def test_broken_uses_of_pools_are_refused(wrapper):
    said = run(wrapper, """
        calls = ((lambda: cuda.end(0, *POOL), "is open"), (lambda: cuda.begin(64, *POOL, CAPTURED), "no allocator"))
        for call, text in calls:
            try:
                call()
            except RuntimeError as error:
                assert text in str(error), error
            else:
                raise SystemExit("not refused")
        cuda.release(0, *POOL)  # comes from destructors
    """)
    assert "a pool of graphs is not released" in said


def test_tagged_pools_and_figures_of_cuda(wrapper):
    run(wrapper, """
        with tidemark.pool("inference"):
            held = cuda.malloc(20 * MIB, 0, EAGER)
        with tidemark.pool("buffers", plain=True):
            plain = cuda.malloc(MIB, 0, EAGER)
        other = cuda.malloc(5 * MIB, 0, EAGER)
        assert tidemark.memory_allocated("cuda:0") == 26 * MIB == tidemark.memory_allocated(0)
        assert tidemark.release("inference", device=0) >= 20 * MIB
        tidemark.restore("inference", device=0)
        for block in (held, plain, other):
            cuda.free(block)
        assert tidemark.max_memory_allocated(0) >= 26 * MIB
        tidemark.reset_peak_memory_stats(0)
        assert tidemark.max_memory_allocated(0) == 0
        assert tidemark.memory_snapshot(0)["segments"]
    """)
