"""Says from a plan.json alone whether carrying it out must go wrong. Written from docs/formats.md ("What a program means");
shares no code with Tidemark, so that it can be held against it.

The judge plays the tasks of a rank in the order they are listed, which is one order the lanes allow, over a shadow of
every byte: the task that wrote it last, the tasks that read it since, and what it holds (storage, version, place). A plan
is wrong where two tasks touch a byte, one of them to write, and neither lanes nor waits order them; where a task reads
what is not the version its op needs; where a storage that outlives the step does not hold its last version behind it;
and where ranks wait for each other for ever or get the message of another micro-batch.
"""

import bisect
import json

OP, RECOMPUTE, SWAP_OUT, SWAP_IN = range(4)
LANES = 7
READ, WRITE = 0, 1
DEVICE = 0
PERSISTENT_ROLES = {"parameter", "gradient", "optimizer_state"}


def unfold(column):
    """The values of a column, as docs/formats.md has it."""
    words, values, largest, total = [], [], -1, 0
    for entry in column["data"]:
        distance, length = entry if isinstance(entry, list) else (0, 1)
        for _ in range(length):
            words.append(words[-distance] if distance else entry)
    coding, scale = column.get("coding", "plain"), column.get("scale", 1)
    for place, word in enumerate(words):
        if coding == "plain":
            value = word
        elif coding == "delta":
            value = total = total + word
        elif word > 0:
            value = values[place - word]
        else:
            value = largest + 1 if word == 0 else -word - 1
        values.append(value)
        largest = max(largest, value)
    assert len(values) == column["count"]
    return values if scale == 1 else [value * scale for value in values]


def rows_of(table, names):
    return [dict(zip(names, row)) for row in zip(*(unfold(table[name]) for name in names))]


class Task:
    def __init__(self, kind, lane, op_template, site, op):
        self.kind, self.lane, self.op_template, self.site, self.op = kind, lane, op_template, site, op
        self.storage = None  # of a copy
        self.waits, self.touches = [], []  # tasks; (residency, READ or WRITE)
        self.message = None  # (is_send, row of the event)


class Residency:
    def __init__(self, row):
        self.__dict__.update(row)


class Rank:
    """The program of one rank."""

    def __init__(self, plan, rank):
        program = rank["program"]
        self.number = program["rank"]
        self.arenas = program["arenas"]
        self.micro_batch = unfold(rank["sites"]["micro_batch"])
        self.roles = storage_roles(plan["templates"][rank["templates"]], rank)
        self.read_tasks(program)
        self.residencies = [Residency(row) for row in rows_of(
            program["residencies"],
            ["storage", "space", "bytes", "first_task", "last_task_after", "acquire", "release_after", "arena", "offset"])]

    def read_tasks(self, program):
        columns = program["tasks"]
        self.tasks = [Task(**row) for row in rows_of(columns, ["kind", "lane", "op_template", "site", "op"])]
        backs = iter(unfold(program["wait_back"]))
        touches = iter(zip(unfold(program["touch_residency"]), unfold(program["touch_kind"])))
        for number, (task, waits, count) in enumerate(
                zip(self.tasks, unfold(columns["waits"]), unfold(columns["touches"]))):
            task.waits = [number - next(backs) for _ in range(waits)]
            task.touches = [next(touches) for _ in range(count)]
        for number, storage in zip(unfold(columns["copy_task"]), unfold(columns["copy_storage"])):
            self.tasks[number].storage = storage
        for is_send, table, names in ((True, "sends", ["task", "peer_rank", "tag"]),
                                      (False, "receives", ["task", "peer_rank", "tag", "arrival_estimate_ns"])):
            for row in rows_of(program[table], names):
                self.tasks[row["task"]].message = (is_send, row)

    def is_persistent(self, residency):
        return self.roles[residency.storage] in PERSISTENT_ROLES and residency.space == DEVICE


def storage_roles(templates, rank):
    sites = rank["sites"]
    firsts, blocks = unfold(sites["first_storage"]), unfold(sites["block"])
    roles = []
    for storage in range(rank["storages"]):
        site = bisect.bisect_right(firsts, storage) - 1
        first_template = templates["blocks"][blocks[site]][1]
        roles.append(templates["storage_templates"][first_template + storage - firsts[site]][2])
    return roles


def wanted_versions(rank):
    """Per task and touch the version that is read or written; per storage the last one."""
    latest, wanted = {}, {}
    order = [n for n, task in enumerate(rank.tasks) if task.kind in (OP, RECOMPUTE)]
    order.sort(key=lambda n: (rank.tasks[n].op, rank.tasks[n].kind == OP, n))
    for number in order:
        task, made = rank.tasks[number], []
        for touch, (residency, kind) in enumerate(task.touches):
            storage = rank.residencies[residency].storage
            version = latest.get(storage, 0)
            if kind == WRITE:
                version = version + 1 if task.kind == OP else max(version, 1)
                made.append((storage, version))
            wanted[number, touch] = version
        if task.kind == OP:
            latest.update(made)
    return wanted, latest


class Shadow:
    """Every byte of a rank's arenas, in pieces that no residency divides."""

    def __init__(self, rank):
        self.pieces_of, count = {}, 0
        for arena in range(len(rank.arenas)):
            inside = [(n, r) for n, r in enumerate(rank.residencies) if r.arena == arena and r.bytes > 0]
            edges = sorted({edge for _, r in inside for edge in (r.offset, r.offset + r.bytes)})
            place = {edge: count + k for k, edge in enumerate(edges)}
            for n, r in inside:
                self.pieces_of[n] = range(place[r.offset], place[r.offset + r.bytes])
            count += len(edges)
        self.writer = [(0, 0)] * count  # lane, one more than the position there; 0: nobody
        self.readers = [None] * count  # since then: per lane, the same; None: nobody
        self.holds = [None] * count  # storage, version, offset where the storage begins


class Wrong(Exception):
    pass


class Play:
    def __init__(self, rank):
        self.rank, self.shadow = rank, Shadow(rank)
        self.wanted, self.latest = wanted_versions(rank)
        self.lane_clock = [[0] * LANES for _ in range(LANES)]
        self.clock_behind = []  # per task: per lane, how many tasks are known to be done when it is

    def run(self):
        rank = self.rank
        persistent = [n for n, r in enumerate(rank.residencies) if rank.is_persistent(r) and n in self.shadow.pieces_of]
        for n in persistent:
            self.put(n, rank.residencies[n].storage, 0)
        for number, task in enumerate(rank.tasks):
            self.step(number, task)
        for n in persistent:
            storage = rank.residencies[n].storage
            self.expect(n, storage, self.latest.get(storage, 0), "behind the step")

    def put(self, residency, storage, version):
        offset = self.rank.residencies[residency].offset
        for piece in self.shadow.pieces_of.get(residency, ()):
            self.shadow.holds[piece] = (storage, version, offset)

    def expect(self, residency, storage, version, who):
        content = (storage, version, self.rank.residencies[residency].offset)
        for piece in self.shadow.pieces_of.get(residency, ()):
            if self.shadow.holds[piece] != content:
                raise Wrong(f"content: {who}, residency {residency}: wants {content}, holds {self.shadow.holds[piece]}")

    def step(self, number, task):
        known = list(self.lane_clock[task.lane])
        for wait in task.waits:
            known = list(map(max, known, self.clock_behind[wait]))
        at = self.lane_clock[task.lane][task.lane] + 1
        self.check_own(number, task)
        for residency, kind in task.touches:
            if kind == READ:
                self.order_read(number, residency, known, task.lane, at)
        carried = self.read_contents(number, task)
        for touch, (residency, kind) in enumerate(task.touches):
            if kind == WRITE:
                self.order_write(number, residency, known, task.lane, at)
                storage = self.rank.residencies[residency].storage
                self.put(residency, *(carried or (storage, self.wanted.get((number, touch)))))
        known[task.lane] = at
        self.lane_clock[task.lane] = known
        self.clock_behind.append(known)

    def check_own(self, number, task):
        """Nothing orders what one task does: it may only change a residency in place."""
        pieces = {residency: self.shadow.pieces_of.get(residency, range(0)) for residency, _ in task.touches}
        for written in (residency for residency, kind in task.touches if kind == WRITE):
            for other, there in pieces.items():
                if other != written and max(there.start, pieces[written].start) < min(there.stop, pieces[written].stop):
                    raise Wrong(f"race: task {number} writes residency {written} over {other}, which it touches, too")

    def read_contents(self, number, task):
        """Checks what an op reads; gives what a copy carries."""
        carried = None
        for touch, (residency, kind) in enumerate(task.touches):
            if kind != READ:
                continue
            if task.kind in (OP, RECOMPUTE):
                storage = self.rank.residencies[residency].storage
                self.expect(residency, storage, self.wanted[number, touch], f"task {number}")
            else:
                carried = self.content_of(residency, task)
        return carried

    def content_of(self, residency, task):
        bytes_of = [self.rank.residencies[touched].bytes for touched, _ in task.touches]
        offset = self.rank.residencies[residency].offset
        held = {self.shadow.holds[piece] for piece in self.shadow.pieces_of.get(residency, ())}
        whole = len(held) == 1 and None not in held and next(iter(held))[2] == offset and len(set(bytes_of)) == 1
        return next(iter(held))[:2] if whole else ("nothing whole", None)

    def order_read(self, number, residency, known, lane, at):
        shadow = self.shadow
        for piece in shadow.pieces_of.get(residency, ()):
            by, position = shadow.writer[piece]
            if position > known[by]:
                raise Wrong(f"race: task {number} reads residency {residency}, unordered with its writer")
            if shadow.readers[piece] is None:
                shadow.readers[piece] = [0] * LANES
            shadow.readers[piece][lane] = at

    def order_write(self, number, residency, known, lane, at):
        shadow = self.shadow
        for piece in shadow.pieces_of.get(residency, ()):
            by, position = shadow.writer[piece]
            readers = shadow.readers[piece] or ()
            late = any(r > k and not (l == lane and r == at) for l, (r, k) in enumerate(zip(readers, known)))
            if late or position > known[by]:
                raise Wrong(f"race: task {number} writes residency {residency}, unordered with an earlier touch")
            shadow.writer[piece] = (lane, at)
            shadow.readers[piece] = None


def match_messages(ranks):
    """(rank, task) of every send to (rank, task) of its receive."""
    ends = {}
    for rank in ranks:
        for number, task in enumerate(rank.tasks):
            if task.message is None:
                continue
            is_send, row = task.message
            pair = (rank.number, row["peer_rank"]) if is_send else (row["peer_rank"], rank.number)
            ends.setdefault((*pair, row["tag"]), ([], []))[0 if is_send else 1].append((rank, number))
    matched = []
    for (source, target, tag), (sends, receives) in ends.items():
        if len(sends) != len(receives):
            raise Wrong(f"message: tag {tag} from rank {source} to {target} has {len(sends)} sends, {len(receives)} receives")
        matched += zip(sends, receives)
    return matched


def judge_messages(ranks):
    edges = {}
    for (sender, send), (receiver, receive) in match_messages(ranks):
        batches = sender.micro_batch[sender.tasks[send].site], receiver.micro_batch[receiver.tasks[receive].site]
        if batches[0] != batches[1]:
            raise Wrong(f"message: what micro-batch {batches[0]} sends is received as that of {batches[1]}")
        edges[receiver.number, receive] = (sender.number, send)
    judge_progress(ranks, edges)


def judge_progress(ranks, edges):
    """Lanes run as far as they can; whatever is left over waits for ever."""
    done = {rank.number: [False] * len(rank.tasks) for rank in ranks}
    queues = [(rank, [n for n, t in enumerate(rank.tasks) if t.lane == lane]) for rank in ranks for lane in range(LANES)]
    heads, moved = [0] * len(queues), True
    while moved:
        moved = False
        for q, (rank, queue) in enumerate(queues):
            while heads[q] < len(queue):
                number = queue[heads[q]]
                sender = edges.get((rank.number, number))
                if not all(done[rank.number][w] for w in rank.tasks[number].waits) or (sender and not done[sender[0]][sender[1]]):
                    break
                done[rank.number][number] = moved = True
                heads[q] += 1
    if any(head < len(queue) for head, (_, queue) in zip(heads, queues)):
        raise Wrong("deadlock: ranks wait for each other")


def judge(ranks, only=None):
    """Why the plan must go wrong, in words; None: it need not. `only`: the rank that differs from a plan judged sound."""
    try:
        for rank in ranks:
            if only is None or rank is only:
                Play(rank).run()
        judge_messages(ranks)
    except Wrong as wrong:
        return str(wrong)
    return None


def read_plan(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def ranks_of(plan):
    return [Rank(plan, rank) for rank in plan["ranks"]]


if __name__ == "__main__":
    import sys
    for plan_path in sys.argv[1:]:
        print(plan_path, judge(ranks_of(read_plan(plan_path))) or "sound")
