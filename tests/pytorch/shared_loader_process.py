"""One rank that reads through tidemark.SharedLoader, over gloo. Run by test_shared_loader.py:

shared_loader_process.py RANK WORLD STORE CASE

Prints one line of JSON: what this rank was given.
"""

import collections
import dataclasses
import datetime
import gc
import hashlib
import importlib.util
import json
import os
import pathlib
import signal
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
if importlib.util.find_spec("tidemark") is None:
    sys.path.insert(0, str(ROOT / "integrations" / "pytorch"))

import tidemark  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

Pair = collections.namedtuple("Pair", "first second")


@dataclasses.dataclass
class Sample:
    tokens: torch.Tensor
    name: str


class Odd(Dataset):
    """Samples of any length and type, which count how often they are read."""

    def __init__(self, count, fails_at=None):
        self.count, self.fails_at, self.reads = count, fails_at, 0

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        self.reads += 1
        if index == self.fails_at:
            raise ValueError(f"sample {index} is torn")
        random = torch.Generator().manual_seed(index)
        length = 1 + index * 7 % 40
        return {
            "tokens": torch.randint(50_000, (length,), generator=random),
            "half": torch.randn(3, length, generator=random).to(torch.bfloat16).t(),
            "nested": [Pair(torch.tensor(index), (torch.zeros(0, 4), "text")), None, 1.5],
            "mask": torch.rand(length, generator=random) > 0.5,
            "complex": torch.view_as_complex(torch.randn(2, 2, generator=random)).conj(),
            "sample": Sample(torch.full((), 2.5, dtype=torch.float64), f"sample {index}"),
        }


def as_it_is(samples):
    """A batch of samples of different lengths; one tensor stands in it twice."""
    return {"samples": samples, "again": samples[0]["tokens"]}


def fed(digest, value):
    """All of a batch, types and shapes included."""
    if isinstance(value, torch.Tensor):
        digest.update(f"{value.dtype} {tuple(value.shape)}".encode())
        flat = value.contiguous().resolve_conj().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")
    elif isinstance(value, dict):
        for key, item in value.items():
            digest.update(str(key).encode())
            fed(digest, item)
    elif isinstance(value, (list, tuple)):
        digest.update(type(value).__name__.encode())
        for item in value:
            fed(digest, item)
    elif isinstance(value, Sample):
        fed(digest, value.tokens)
        digest.update(value.name.encode())
    else:
        digest.update(repr(value).encode())


def digests(batches):
    found = []
    for batch in batches:
        digest = hashlib.sha256()
        fed(digest, batch)
        found.append(digest.hexdigest())
    return found


def loader_of(dataset, **options):
    return DataLoader(dataset, batch_size=3, collate_fn=as_it_is, **options)


def three_epochs(loader):
    """Of the first and the last; the one between them ends early."""
    first = digests(loader)
    for index, _ in enumerate(loader):
        if index == 2:
            break
    return [first, digests(loader)]


def epochs(rank, **options):
    """What a plain loader gives stands beside it."""
    dataset = Odd(20)
    random = {"shuffle": True, "generator": torch.Generator().manual_seed(3)}
    shared = tidemark.SharedLoader(loader_of(dataset, **random, **options) if rank == 0 else None)
    first, second = three_epochs(shared)
    reads, length = dataset.reads, len(shared)
    shared.close()
    plain = loader_of(Odd(20), shuffle=True, generator=torch.Generator().manual_seed(3), **options)
    batch = next(iter(tidemark.SharedLoader(loader_of(Odd(3)) if rank == 0 else None)))
    return {
        "first": first,
        "second": second,
        "expected": three_epochs(plain),
        "reads": reads,
        "length": length,
        "same object": batch["again"] is batch["samples"][0]["tokens"],
        "types": [type(batch["samples"][0]["nested"][0]).__name__, type(batch["samples"][0]["sample"]).__name__],
    }


def workers(rank):
    return epochs(rank, num_workers=2)


def generator(rank):
    """No length, one batch after the other, and none the second time."""

    def batches():
        for index in range(3):
            yield torch.full((index + 1, 2), float(index)), {"index": index}

    shared = tidemark.SharedLoader(batches() if rank == 0 else None)
    try:
        length = len(shared)
    except TypeError as error:
        length = str(error)
    first = [(tensor.tolist(), rest["index"]) for tensor, rest in shared]
    return {"length": length, "first": first, "second": len(list(shared))}


def empty(rank):
    shared = tidemark.SharedLoader(loader_of(Odd(0)) if rank == 0 else None)
    return {"length": len(shared), "batches": len(list(shared)), "again": len(list(shared))}


def taken_until_error(shared, iterator=None):
    taken = 0
    try:
        for _ in iterator or shared:
            taken += 1
    except tidemark.SharedLoaderError as error:
        cause = type(error.__cause__).__name__
        try:
            next(iter(shared))
        except tidemark.SharedLoaderError as later:
            said = {"error": str(error).splitlines()[0], "later": str(later).split(":")[0]}
            return {"taken": taken, "cause": cause, **said}
    return {"taken": taken, "error": None}


def failing(rank):
    return taken_until_error(tidemark.SharedLoader(loader_of(Odd(20, fails_at=10)) if rank == 0 else None))


def unpicklable(rank):
    return taken_until_error(tidemark.SharedLoader([1, lambda: 2] if rank == 0 else None))


def sparse(rank):
    return taken_until_error(tidemark.SharedLoader([torch.eye(2).to_sparse()] if rank == 0 else None))


def broken_iterator(rank):
    class Broken:
        def __iter__(self):
            raise OSError("no such data set")

    return taken_until_error(tidemark.SharedLoader(Broken() if rank == 0 else None))


def groups(rank):
    """Two groups of two: ranks 0, 1 and 2, 3."""
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    dataset = Odd(6 + rank // 2 * 3)
    shared = tidemark.SharedLoader(loader_of(dataset), pairs[rank // 2])
    found = digests(shared)
    try:
        tidemark.SharedLoader(loader_of(dataset), pairs[1 - rank // 2])
        refused = None
    except ValueError as error:
        refused = str(error)
    return {"digests": found, "reads": dataset.reads, "refused": refused}


def uneven(rank):
    """Rank 1 takes a batch less than the others before it begins anew."""
    shared = tidemark.SharedLoader(loader_of(Odd(20)) if rank == 0 else None, timeout=datetime.timedelta(seconds=20))
    iterator = iter(shared)
    for _ in range(1 if rank == 1 else 2):
        next(iterator)
    if rank == 1:
        return taken_until_error(shared)
    time.sleep(3)
    return {}


def training(rank):
    """Collectives of the training between batches, on the group of the loader, with a loader that is slow."""

    class Slow(Odd):
        def __getitem__(self, index):
            time.sleep(0.01)
            return super().__getitem__(index)

    shared = tidemark.SharedLoader(loader_of(Slow(20)) if rank == 0 else None)
    sums = []
    for batch in shared:
        total = batch["again"].sum()
        dist.all_reduce(total)
        sums.append(int(total) - dist.get_world_size() * int(batch["again"].sum()))
    return {"sums": sums}


def ahead(rank):
    """How many samples are read when none, one and two batches have been taken, with time to read more."""
    dataset = Odd(20)
    shared = tidemark.SharedLoader(loader_of(dataset) if rank == 0 else None)
    reads = []
    iterator = iter(shared)
    for _ in range(2):
        time.sleep(0.5)
        reads.append(dataset.reads)
        next(iterator)
    time.sleep(0.5)
    return {"reads": [*reads, dataset.reads]}


def killed(rank):
    """The rank that reads dies after two batches."""
    shared = tidemark.SharedLoader(loader_of(Odd(20)) if rank == 0 else None, timeout=datetime.timedelta(seconds=10))
    iterator = iter(shared)
    next(iterator), next(iterator)
    if rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    begin = time.monotonic()
    said = taken_until_error(shared, iterator)
    return {**said, "seconds": time.monotonic() - begin}


def stuck(rank):
    """The rank that reads never answers."""

    def batches():
        yield 1
        time.sleep(60)

    shared = tidemark.SharedLoader(batches() if rank == 0 else None, timeout=datetime.timedelta(seconds=3))
    iterator = iter(shared)
    next(iterator)
    if rank == 0:
        time.sleep(6)
        return {}
    return taken_until_error(shared, iterator)


def said_of(call):
    """(type, first line, type of the cause) of what it raises, and after how many seconds."""
    begin = time.monotonic()
    try:
        call()
    except Exception as error:
        found = [type(error).__name__, str(error).splitlines()[0], type(error.__cause__).__name__]
    else:
        found = ["nothing", "", ""]
    return {"raised": found, "seconds": time.monotonic() - begin}


def threads_left():
    """Of loaders; one that was told to end does so after what it does."""
    deadline = time.monotonic() + 5
    count = lambda: sum(thread.name == "tidemark-loader" for thread in threading.enumerate())  # noqa: E731
    while count() and time.monotonic() < deadline:
        time.sleep(0.01)
    return count()


def closed(rank):
    """Never iterated over; in the middle of an epoch; with an iterator that has not begun; twice."""
    untouched = tidemark.SharedLoader(loader_of(Odd(20)) if rank == 0 else None)
    untouched.close()
    half = tidemark.SharedLoader(loader_of(Odd(20)) if rank == 0 else None)
    iterator = iter(half)
    next(iterator)
    half.close()
    late = tidemark.SharedLoader(loader_of(Odd(20)) if rank == 0 else None)
    begun = iter(late)
    late.close()
    late.close()
    calls = [lambda: next(iter(untouched)), lambda: next(iter(half)), lambda: next(iterator), lambda: next(begun)]
    return {"said": [said_of(call) for call in calls], "length": len(half), "threads": threads_left()}


def closed_after_failure(rank):
    """The batch ahead fails as the loader is closed."""
    before = len(dist.distributed_c10d._world.pg_map)
    shared = tidemark.SharedLoader(loader_of(Odd(20, fails_at=4)) if rank == 0 else None)
    next(iter(shared))
    said = [said_of(shared.close), said_of(lambda: next(iter(shared))), said_of(shared.close)]
    return {"said": said, "threads": threads_left(), "groups": len(dist.distributed_c10d._world.pg_map) - before}


def broken_length(rank):
    class Broken(Odd):
        def __len__(self):
            raise OSError("the index is torn")

    timeout = datetime.timedelta(seconds=20)
    made = said_of(lambda: tidemark.SharedLoader(Broken(20) if rank == 0 else None, timeout=timeout))
    gc.collect()
    return {**made, "threads": threads_left()}


if __name__ == "__main__":
    rank, world, store, case = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    print(json.dumps(globals()[case](rank)), flush=True)
    # The others may have died, or hang: none is waited for.
    os._exit(0)
