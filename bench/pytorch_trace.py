"""Question: do a plan's copies run beside kernels? A Chrome trace of one planned step, and the share of the copies' time that does.

Method: the Llama of pytorch_rivals.py is captured with the device's link to host memory, planned for `--keep` of what it takes with
everything kept by swaps, and steps in a session; the third step is profiled by torch.profiler. The trace is kept where `--out` says.
The link is as the GPU has it; on a CPU, where a copy is no work of a device, one is made up and no overlap is there to be seen: that
the trace can be made is all that shows.

Usage: pytorch_trace.py --out FILE [--device cpu|cuda] [--keep S] [--rows N] [--bf16] [--tiny]
Exit 1 on a GPU where the trace has no copies.
"""

import argparse
import dataclasses
import json
import pathlib
import sys

import tidemark
import torch
from bench_device import BenchDevice
from pytorch_rivals import OF_GPU, TINY, Size, Way, llama
from trace_overlap import overlap_of


def planned(way, keep):
    """Within a share of everything kept, or the smallest that does."""
    link = {} if way.device.is_gpu else {"host_link": tidemark.HostLink()}
    graph = tidemark.capture(way.model, (way.tokens,), optimizer=way.optimizer, recorded=True, **link)
    for op in graph.ops:
        if op.recompute == "pure":
            op.recompute = "never"  # swaps are to be seen
    try:
        return tidemark.plan(graph, int(keep * graph.keep_all_peak_bytes()))
    except tidemark.InfeasibleError as error:
        return tidemark.plan(graph, error.smallest_bytes)


def trace(way, plan, out):
    kinds = [torch.profiler.ProfilerActivity.CPU]
    if way.device.is_gpu:
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
    with tidemark.session(plan, way.model) as session:
        for _ in range(2):
            way.step()
        way.device.now()
        with torch.profiler.profile(activities=kinds) as profile:
            way.step()
            way.device.now()
        swapped = session.counters.swapped
    profile.export_chrome_trace(str(out))
    return swapped


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--keep", type=float, default=0.7)
    parser.add_argument("--rows", type=int, help="of the batch; default: 8 on a GPU")
    parser.add_argument("--bf16", action="store_true", help="forward and loss within torch.autocast")
    parser.add_argument("--tiny", action="store_true", help="a dry run")
    arguments = parser.parse_args()
    device = BenchDevice(arguments.device)
    size = TINY if arguments.tiny else dataclasses.replace(OF_GPU, rows=8) if device.is_gpu else Size()
    size = dataclasses.replace(size, is_bf16=arguments.bf16)
    if arguments.rows:
        size = dataclasses.replace(size, rows=arguments.rows)
    way = Way(llama, size, device)
    plan = planned(way, arguments.keep)
    swapped = trace(way, plan, arguments.out)
    found = overlap_of(json.loads(arguments.out.read_text())["traceEvents"])
    print(f"{device}\n{len(plan.swaps)} swaps planned, {swapped} made; the trace is {arguments.out}")
    if not found.copies_us:
        print("copies of a device in the trace: none")
        return 1 if device.is_gpu else 0
    print(f"copies {found.copies_us / 1e3:.2f} ms, beside kernels {found.beside_kernels_us / 1e3:.2f} ms: {found.share:.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
