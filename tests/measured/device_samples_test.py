"""Samples of host memory, without PyTorch: the package's own start is left out, as it needs one."""

import json
import os
import pathlib
import sys
import tempfile
import threading
import types
import unittest

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "integrations" / "pytorch" / "tidemark"
package = types.ModuleType("tidemark")
package.__path__ = [str(PACKAGE)]
sys.modules["tidemark"] = package

from tidemark import device_samples  # noqa: E402
from tidemark.errors import TidemarkError  # noqa: E402

MIB = 2**20


def touch(mib):
    """So much resident memory for a moment."""
    held = bytearray(mib * MIB)
    held[::4096] = b"x" * len(held[::4096])


class HostPeakTest(unittest.TestCase):
    def test_what_the_block_held_is_in_the_peak(self):
        with device_samples.host_peak() as peak:
            touch(64)
        self.assertGreaterEqual(peak.added_bytes, 60 * MIB)
        self.assertLess(peak.added_bytes, 200 * MIB)

    def test_what_was_there_before_is_not(self):
        touch(128)
        with device_samples.host_peak() as peak:
            touch(16)
        self.assertLess(peak.added_bytes, 100 * MIB)

    def test_a_kernel_that_does_not_reset_is_sampled(self):
        reset = device_samples._CLEAR
        device_samples._CLEAR = "/proc/self/no_such_file_here"
        try:
            with device_samples.host_peak() as peak:
                held = bytearray(64 * MIB)
                held[::4096] = b"x" * len(held[::4096])
                threading.Event().wait(0.2)
                del held
        finally:
            device_samples._CLEAR = reset
        self.assertTrue(peak.is_sampled)
        self.assertGreaterEqual(peak.added_bytes, 60 * MIB)

    def test_the_block_may_fail(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "d.jsonl")
            with self.assertRaises(KeyError), device_samples.host_peak(path):
                raise KeyError
            self.assertFalse(os.path.exists(path))


class DeviceSampleTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "rank_{rank}", "device_sample.jsonl")

    def lines(self, rank):
        with open(self.path.replace("{rank}", str(rank)), encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]

    def test_lines_are_appended(self):
        first = device_samples.device_sample(self.path, rank=3)
        with device_samples.host_peak(self.path, rank=3):
            pass
        lines = self.lines(3)
        self.assertEqual(lines[0], first)
        self.assertEqual([line["tidemark_device_sample"] for line in lines], [1, 1])
        self.assertEqual(lines[1]["label"], "checkpoint")
        self.assertGreater(lines[1]["host_peak_bytes"], MIB)

    def test_the_rank_is_that_of_the_launcher(self):
        os.environ["RANK"] = "7"
        self.addCleanup(os.environ.pop, "RANK")
        self.assertEqual(device_samples.device_sample(self.path)["rank"], 7)
        self.assertEqual(len(self.lines(7)), 1)

    def test_ranks_that_are_none_are_refused(self):
        for rank in ("three", -1, 1.5j):
            with self.assertRaisesRegex(TidemarkError, "right would be a whole number from 0"):
                device_samples.device_sample(self.path, rank=rank)

    def test_a_device_needs_pytorch(self):
        with self.assertRaisesRegex(TidemarkError, "import torch first"):
            device_samples.device_sample(self.path, device="cuda:0")

    def test_members_are_those_of_the_schema(self):
        schema = json.loads((PACKAGE.parents[2] / "docs/schemas/device_sample.schema.json").read_text(encoding="utf-8"))
        line = device_samples.device_sample(self.path, label="step")
        self.assertLessEqual(set(line), set(schema["properties"]))
        self.assertGreaterEqual(set(line), set(schema["required"]))


if __name__ == "__main__":
    if not sys.platform.startswith("linux"):
        sys.exit("host memory is measured on Linux only")
    unittest.main()
