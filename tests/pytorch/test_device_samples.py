"""What device_sample() and host_peak() write of a process: read back by `tidemark check`, and held against allocations of
known size."""

import json
import os
import pathlib
import subprocess
import sys
import threading

import pytest
import tidemark
import torch
from tidemark import device_samples

MIB = 1 << 20
SMALL = 8 * MIB  # of the interpreter and its libraries beside a block that is measured
PROGRAM = pathlib.Path(os.environ.get("TIDEMARK_BUILD_DIR", "build/pytorch")) / "integrations" / "cli" / "tidemark"

has_program = pytest.mark.skipif(not PROGRAM.is_file(), reason="TIDEMARK_BUILD_DIR names no build with the program")
without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a GPU")
with_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


@pytest.fixture(autouse=True)
def one_process(monkeypatch):
    """Whoever started the tests may have said a rank."""
    monkeypatch.delenv("RANK", raising=False)


@pytest.fixture(params=["kernel", "sampled"])
def either_way(request, monkeypatch):
    """By the kernel's own mark, and where it may not be reset (containers without /proc/self/clear_refs)."""
    if request.param == "sampled":
        monkeypatch.setattr(device_samples, "_CLEAR", "/proc/self/no-such-file")
    elif not device_samples._reset_peak():
        pytest.skip("the kernel does not reset VmHWM")
    return request.param


def lines_of(path):
    return [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]


def resident(size):
    """A block every page of which is there."""
    block = bytearray(size)
    block[:: os.sysconf("SC_PAGE_SIZE")] = b"\1" * len(range(0, size, os.sysconf("SC_PAGE_SIZE")))
    return block


def checked(folder, *options, status=0):
    """What `tidemark check` makes of a folder or a file, as the one job of its JSON report."""
    words = [str(PROGRAM), "check", str(folder), *options, "--format", "json", "--quiet"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)["jobs"][0] if status < 2 else done.stderr


def with_device(line, used, reserved, allocated):
    """A line as the same process on a device would have written it."""
    return {
        **line,
        "device": "cuda:0",
        "device_total_bytes": 1 << 36,
        "device_used_bytes": used,
        "allocator_reserved_bytes": reserved,
        "allocator_allocated_bytes": allocated,
        "allocator_reserved_peak_bytes": reserved,
        "allocator_allocated_peak_bytes": allocated,
    }


class TestSample:
    def test_is_one_line_and_what_is_returned(self, tmp_path):
        path = tmp_path / "run" / "rank_{rank}" / "device_sample.jsonl"
        first = tidemark.device_sample(path, rank=3, label="warm-up")
        second = tidemark.device_sample(str(path), rank=3)
        assert lines_of(tmp_path / "run" / "rank_3" / "device_sample.jsonl") == [first, second]
        assert first["tidemark_device_sample"] == 1 and first["rank"] == 3 and first["label"] == "warm-up"
        assert "label" not in second

    def test_rank_is_that_of_the_launcher(self, tmp_path, monkeypatch):
        assert tidemark.device_sample(tmp_path / "a")["rank"] == 0
        monkeypatch.setenv("RANK", "5")
        assert tidemark.device_sample(tmp_path / "a")["rank"] == 5
        assert tidemark.device_sample(tmp_path / "a", rank=6)["rank"] == 6
        monkeypatch.setenv("RANK", "five")
        with pytest.raises(tidemark.TidemarkError, match="rank is 'five'; right would be a whole number from 0"):
            tidemark.device_sample(tmp_path / "b")
        with pytest.raises(tidemark.TidemarkError, match="rank is -1; right would be"):
            tidemark.device_sample(tmp_path / "b", rank=-1)
        assert not (tmp_path / "b").exists(), "a refused sample leaves no file"

    def test_host_memory_is_the_most_that_was_resident(self, tmp_path):
        block = resident(64 * MIB)
        held = device_samples.resident_bytes()
        del block
        # The kernel counts the pages of a thread some dozens at a time.
        assert tidemark.device_sample(tmp_path / "a")["host_peak_bytes"] >= held - MIB

    def test_lines_of_threads_do_not_mix(self, tmp_path):
        def write(label):
            for _ in range(50):
                tidemark.device_sample(tmp_path / "a", label=label * 200)

        threads = [threading.Thread(target=write, args=(letter,)) for letter in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        labels = [line["label"] for line in lines_of(tmp_path / "a")]
        assert sorted(labels) == sorted(letter * 200 for letter in "abcd" for _ in range(50))

    @without_gpu
    def test_without_a_device_it_is_of_the_host_alone(self, tmp_path):
        line = tidemark.device_sample(tmp_path / "a")
        assert {name for name in line if name.endswith("_bytes")} <= {"host_peak_bytes", "host_pinned_bytes"}
        assert line["host_peak_bytes"] > 0 and "device" not in line

    def test_a_device_that_reports_no_memory_is_refused(self, tmp_path):
        with pytest.raises(tidemark.TidemarkError, match="device is 'cpu', which reports no memory; right would be one of CUDA"):
            tidemark.device_sample(tmp_path / "a", device="cpu")
        assert not (tmp_path / "a").exists()

    def test_a_device_without_pytorch_is_refused(self, tmp_path, monkeypatch):
        monkeypatch.delitem(sys.modules, "torch")
        assert "device" not in tidemark.device_sample(tmp_path / "a")
        with pytest.raises(tidemark.TidemarkError, match="device is 'cuda:0', and PyTorch is not loaded"):
            tidemark.device_sample(tmp_path / "b", device="cuda:0")

    @with_gpu
    def test_of_a_device_it_is_what_the_driver_and_the_allocator_say(self, tmp_path):
        block = torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
        line = tidemark.device_sample(tmp_path / "a")
        assert line["device"].startswith("cuda:")
        assert line["allocator_allocated_bytes"] >= block.numel()
        assert line["allocator_allocated_bytes"] <= line["allocator_reserved_bytes"] <= line["device_used_bytes"]
        assert line["device_used_bytes"] <= line["device_total_bytes"]
        assert tidemark.device_sample(tmp_path / "a", device="cuda:0")["device_total_bytes"] == line["device_total_bytes"]


class TestHostPeak:
    def test_is_what_the_block_held_at_its_highest(self, either_way):
        size = 256 * MIB
        with tidemark.host_peak() as peak:
            block = resident(size)
            threading.Event().wait(0.1)  # long enough to be looked at
            del block
        assert peak.is_sampled == (either_way == "sampled")
        assert size - SMALL <= peak.added_bytes <= size + SMALL
        assert peak.bytes == peak.before_bytes + peak.added_bytes

    def test_what_was_held_before_is_not_of_the_block(self, either_way):
        block = resident(256 * MIB)
        del block
        with tidemark.host_peak() as peak:
            pass
        assert peak.added_bytes <= SMALL

    def test_writes_one_line_behind_the_block(self, tmp_path, either_way):
        path = tmp_path / "rank_{rank}_device_sample.jsonl"
        with tidemark.host_peak(path, rank=2) as peak:
            state = {"weight": torch.ones(4 * MIB)}  # 16 MiB
            torch.save(state, tmp_path / "checkpoint.pt")
            assert not (tmp_path / "rank_2_device_sample.jsonl").exists()
        (line,) = lines_of(tmp_path / "rank_2_device_sample.jsonl")
        assert line["host_peak_bytes"] == peak.bytes >= peak.before_bytes
        assert line["label"] == "checkpoint" and line["rank"] == 2

    def test_a_block_that_fails_writes_no_line(self, tmp_path, either_way):
        with pytest.raises(RuntimeError, match="of the block"), tidemark.host_peak(tmp_path / "a"):
            raise RuntimeError("of the block")
        assert not (tmp_path / "a").exists()
        watching = [thread for thread in threading.enumerate() if thread.name.startswith("Thread-") and "watch" in thread.name]
        assert not watching, "the thread that looks has ended"


@has_program
class TestReader:
    """The file is that of a process on a CPU, with what a device would have added."""

    def write(self, path, *figures, **sample):
        line = tidemark.device_sample(path, **sample)
        if figures:
            place = pathlib.Path(str(path).replace("{rank}", str(line["rank"])))
            place.write_text(json.dumps(with_device(line, *figures)) + "\n")
        return line

    def test_every_rank_of_a_folder_is_read(self, tmp_path):
        path = tmp_path / "run" / "rank_{rank}" / "device_sample.jsonl"
        host = [self.write(path, 700 * MIB, 600 * MIB, 500 * MIB, rank=rank)["host_peak_bytes"] for rank in (0, 3)]
        job = checked(tmp_path / "run", "--budget", "1GiB")
        assert job["basis"] == "measured" and job["verdict"] == "PASS"
        assert [rank["rank"] for rank in job["ranks"]] == [0, 3]
        assert [rank["peak_bytes"] for rank in job["ranks"]] == [700 * MIB] * 2
        assert [rank["host_bytes"] for rank in job["ranks"]] == host
        # The device has 100 MiB in use that the allocator does not hold, and the allocator 100 MiB that nothing uses.
        assert job["ranks"][0]["by_category"] == {"reserve": 100 * MIB, "cached": 100 * MIB, "other": 500 * MIB}
        assert "held outside the allocator" in {row["storage"] for row in job["contributors"]}
        assert checked(tmp_path / "run", "--budget", "650MiB", status=1)["verdict"] == "FAIL"

    def test_a_checkpoint_is_in_the_host_memory_of_its_rank(self, tmp_path):
        path = tmp_path / "rank_{rank}_device_sample.jsonl"
        self.write(path, 700 * MIB, 600 * MIB, 500 * MIB, rank=1)
        before = device_samples.peak_bytes()
        with tidemark.host_peak(path, rank=1) as peak:
            block = resident(max(256 * MIB, before))
            threading.Event().wait(0.1)
            del block
        job = checked(tmp_path / "rank_1_device_sample.jsonl", "--budget", "1GiB", "--host-budget", "1MiB", status=1)
        assert job["ranks"][0]["host_bytes"] == peak.bytes > before
        assert job["findings"][1]["kind"] == "host" and job["findings"][1]["bytes"] == peak.bytes

    @without_gpu
    def test_a_file_of_the_host_alone_says_what_is_missing(self, tmp_path):
        path = tmp_path / "device_sample.jsonl"
        self.write(path)
        assert "nothing of the device's memory was measured, only the host's" in checked(path, "--budget", "1GiB", status=2)

    def test_another_rank_than_the_name_says_is_refused(self, tmp_path):
        path = tmp_path / "rank_4_device_sample.jsonl"
        self.write(path, rank=5)
        assert "the sample is of rank 5; by its name the file is of rank 4" in checked(path, "--budget", "1GiB", status=2)
