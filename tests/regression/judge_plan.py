"""Says from a plan.json alone whether carrying it out must go wrong. Written from docs/formats.md ("What a program means");
shares no code with Tidemark, so that it can be held against it.

The judge plays the tasks of a rank in the order they are listed, which is one order the lanes allow, over a shadow of
every byte: the task that wrote it last, the tasks that read it since, and what it holds (storage, version, place). A plan
is wrong where two tasks touch a byte, one of them to write, and neither lanes nor waits order them; where a task reads
what is not the version its op needs; where a storage that outlives the step does not hold its last version behind it,
or one that is held does not hold its content until then; where the ops are not those of the graph, of a captured step;
and where ranks wait for each other for ever or get the message of another micro-batch.
"""

import bisect
import json

OP, RECOMPUTE, SWAP_OUT, SWAP_IN = range(4)
LANES = 7
READ, WRITE = 0, 1
DEVICE = 0
PERSISTENT_ROLES = {"parameter", "gradient", "optimizer_state"}  # of a job: full before the step and behind it
INITIAL, LASTING = 2, 4  # of a captured step: bits of storage_bits that say the same
FULL_BEFORE, FULL_BEHIND = 1, 2  # bits of a residency's `full`


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
        self.initial, self.lasting, self.held_until = storage_traits(plan, rank)
        self.graph = Graph(plan["graph"]) if "graph" in plan else None
        self.read_tasks(program)
        self.residencies = [Residency(row) for row in rows_of(
            program["residencies"],
            ["storage", "space", "bytes", "first_task", "last_task_after", "acquire", "release_after", "full", "arena",
             "offset"])]

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
        """Full before the step and behind it: where nothing else is said, one residency of the whole step."""
        storage = residency.storage
        return self.initial[storage] and self.lasting[storage] and residency.space == DEVICE

    def last_task_of(self, residency):
        return residency.first_task + residency.last_task_after

    def first_listed(self):
        """Per storage the first residency listed of it."""
        first = {}
        for number, residency in enumerate(self.residencies):
            first.setdefault(residency.storage, number)
        return first

    def may_rest(self, storage):
        """In host memory between steps."""
        return self.initial[storage] and self.lasting[storage]

    def full_before(self):
        """Residencies that hold content before the step; what has none to hold it is wrong."""
        full = [number for storage, number in self.first_listed().items() if self.initial[storage]]
        for number, residency in enumerate(self.residencies):
            if (residency.full & FULL_BEFORE != 0) != (number in full):
                raise Wrong(f"content: residency {number} has full {residency.full}, but storage {residency.storage} says otherwise")
        for number in full:
            residency = self.residencies[number]
            if residency.first_task != 0 or (residency.space != DEVICE and not self.may_rest(residency.storage)):
                raise Wrong(f"content: storage {residency.storage} is full before the step, but residency {number} does not begin there")
        return full

    def full_behind(self):
        """Per storage that lasts, the residency that is there when the step is over, and in the memory it began in."""
        behind, first = {storage: None for storage, lasts in enumerate(self.lasting) if lasts}, self.first_listed()
        for number, residency in enumerate(self.residencies):
            if residency.full & FULL_BEHIND == 0:
                continue
            storage = residency.storage
            rests = self.may_rest(storage) and self.residencies[first[storage]].space != DEVICE
            at_home = number == first[storage] if rests else residency.space == DEVICE
            if not at_home or behind.get(storage, number) is not None or self.last_task_of(residency) != len(self.tasks) - 1:
                raise Wrong(f"content: residency {number} cannot hold what lasts of storage {storage}")
            behind[storage] = number
        return behind

    def holds(self):
        """Per task the residencies that a hold keeps until it: the first of a storage lasts until the op it is held for."""
        task_of = {task.op: number for number, task in enumerate(self.tasks) if task.kind == OP}
        held = {}
        for storage, number in self.first_listed().items():
            until, residency = task_of.get(self.held_until[storage]), self.residencies[number]
            if until is None or residency.first_task > until:
                continue
            if self.last_task_of(residency) < until:
                raise Wrong(f"hold: storage {storage} is held until task {until}, residency {number} is not")
            held.setdefault(until, []).append(number)
        return held

    def judge_ops(self):
        """Every op of a captured step runs once, in order, and touches what it accesses; a recompute is a step of a recipe."""
        if self.graph is None:
            return
        last, again = -1, False
        for number, task in enumerate(self.tasks):
            if task.kind not in (OP, RECOMPUTE):
                continue
            touched = sorted((self.residencies[r].storage, kind) for r, kind in task.touches)
            recomputes = task.kind == RECOMPUTE
            known = task.op_template in self.graph.recipes if recomputes else task.op_template == task.op
            if not known or touched != sorted(self.graph.accesses[task.op_template]):
                raise Wrong(f"op: task {number} is no {'step of a recipe' if recomputes else 'op of the graph'}")
            if not recomputes and task.op != last + 1:
                raise Wrong(f"op: task {number} runs op {task.op} behind op {last}")
            if not recomputes and again and task.op in self.graph.untold:
                raise Wrong(f"op: a recompute stands right before op {task.op}, which is not told")
            last, again = last if recomputes else task.op, recomputes
        if last + 1 != len(self.graph.accesses):
            raise Wrong(f"op: op {last + 1} never runs")


class Graph:
    """What the ops of a captured step access: (storage, READ or WRITE) of each, and the version."""

    def __init__(self, graph):
        storages, kinds = iter(unfold(graph["access_storage"])), iter(unfold(graph["access_kind"]))
        self.accesses, self.versions, latest = [], [], {}
        for count in unfold(graph["accesses"]):
            self.accesses.append([(next(storages), next(kinds)) for _ in range(count)])
            for storage, kind in self.accesses[-1]:
                latest[storage] = latest.get(storage, 0) + (kind == WRITE)
                self.versions.append(((len(self.accesses) - 1, storage, kind), latest[storage]))
        self.versions = dict(self.versions)
        self.recipes = set(unfold(graph["recipe_op"]))
        self.untold = set(unfold(graph["untold"])) if "untold" in graph else set()


def storage_traits(plan, rank):
    """Per storage: whether it is full before the step, whether it is behind it, until which op it is held (-1: no)."""
    if "graph" in plan:
        bits = unfold(plan["graph"]["storage_bits"])
        return [b & INITIAL != 0 for b in bits], [b & LASTING != 0 for b in bits], unfold(plan["graph"]["held_until"])
    persists = [role in PERSISTENT_ROLES for role in storage_roles(plan["templates"][rank["templates"]], rank)]
    return persists, persists, [-1] * len(persists)


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
            if rank.graph is not None:  # says what each op reads and makes, run again or not
                version = rank.graph.versions.get((task.op_template, storage, kind), version)
                made += [(storage, version)] * (kind == WRITE)
            elif kind == WRITE:
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
        rank.judge_ops()
        self.holds = rank.holds()
        for n in rank.full_before():
            self.put(n, rank.residencies[n].storage, 0)
        for number, task in enumerate(rank.tasks):
            self.step(number, task)
        for storage, residency in rank.full_behind().items():
            self.expect_behind(storage, residency)

    def expect_behind(self, storage, residency):
        """The last version. What nothing fills need not be anywhere."""
        last = self.latest.get(storage, 0)
        if last == 0 and not self.rank.initial[storage]:
            return
        if residency is None:
            raise Wrong(f"content: storage {storage} is in no memory behind the step")
        self.expect(residency, storage, last, "behind the step")

    def put(self, residency, storage, version):
        offset = self.rank.residencies[residency].offset
        for piece in self.shadow.pieces_of.get(residency, ()):
            self.shadow.holds[piece] = (storage, version, offset)

    def expect(self, residency, storage, version, who):
        content = (storage, version, self.rank.residencies[residency].offset)
        for piece in self.shadow.pieces_of.get(residency, ()):
            if self.shadow.holds[piece] != content:
                raise Wrong(f"content: {who}, residency {residency}: wants {content}, holds {self.shadow.holds[piece]}")

    def expect_own(self, residency, who):
        """Some version of its storage."""
        own = self.rank.residencies[residency]
        for piece in self.shadow.pieces_of.get(residency, ()):
            held = self.shadow.holds[piece]
            if held is None or (held[0], held[2]) != (own.storage, own.offset):
                raise Wrong(f"content: {who}, residency {residency}: holds {held}")

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
        for residency in self.holds.get(number, ()):
            self.order_read(number, residency, known, task.lane, at)
            self.expect_own(residency, f"task {number}, until which it is held")
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
    matched, here = [], {rank.number for rank in ranks}
    for (source, target, tag), (sends, receives) in ends.items():
        if not {source, target} <= here:
            continue
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
