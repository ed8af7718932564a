"""Breaks plans: each function changes one thing of a rank's program, at random, and says what; None where it found no
place. Whether the outcome is wrong is for the judge."""

import copy

from judge_plan import DEVICE, FULL_BEHIND, LANES, OP, READ, RECOMPUTE, SWAP_IN, SWAP_OUT, WRITE, Residency

TRIES = 60
GRANULE = 2 << 20
COMPUTE = 0  # the lane


def pick(random, items):
    return random.choice(items) if items else None


def touching(rank):
    """Per residency the tasks that touch it, in order."""
    tasks = [[] for _ in rank.residencies]
    for number, task in enumerate(rank.tasks):
        for residency, _ in task.touches:
            tasks[residency].append(number)
    return tasks


def waiting(rank):
    return [n for n, task in enumerate(rank.tasks) if task.waits]


def of_kind(rank, *kinds):
    return [n for n, task in enumerate(rank.tasks) if task.kind in kinds]


def drop_wait(rank, random):
    number = pick(random, waiting(rank))
    if number is None:
        return None
    gone = random.choice(rank.tasks[number].waits)
    rank.tasks[number].waits.remove(gone)
    return f"task {number} no longer waits for {gone}"


def move_wait_back(rank, random):
    """Waits for an earlier task of the lane instead."""
    number = pick(random, waiting(rank))
    if number is None:
        return None
    waits = rank.tasks[number].waits
    which = random.randrange(len(waits))
    lane = rank.tasks[waits[which]].lane
    earlier = [n for n in range(waits[which]) if rank.tasks[n].lane == lane][-6:]
    if not earlier:
        return None
    was, waits[which] = waits[which], random.choice(earlier)
    return f"task {number} waits for {waits[which]} instead of {was}"


def move_wait_on(rank, random):
    """A later task of the lane waits instead."""
    number = pick(random, waiting(rank))
    if number is None:
        return None
    lane = rank.tasks[number].lane
    later = [n for n in range(number + 1, min(number + 200, len(rank.tasks))) if rank.tasks[n].lane == lane][:4]
    if not later:
        return None
    wait, to = random.choice(rank.tasks[number].waits), random.choice(later)
    rank.tasks[number].waits.remove(wait)
    rank.tasks[to].waits.append(wait)
    return f"task {to} instead of {number} waits for {wait}"


def place(rank, residency, offset):
    """Moves a residency if it fits there."""
    r = rank.residencies[residency]
    arena = rank.arenas[r.arena]
    if offset < 0 or offset == r.offset or offset + r.bytes > arena["height_bytes"] or offset % arena["alignment_bytes"]:
        return False
    r.offset = offset
    return True


def residencies(rank, space):
    return [n for n, r in enumerate(rank.residencies) if r.space == space and r.bytes > 0]


def free_early(rank, random):
    """What is first touched before another's last touch takes its bytes, as if they had been freed before."""
    tasks, device = touching(rank), residencies(rank, DEVICE)
    for _ in range(TRIES):
        a = random.choice(device)
        if len(tasks[a]) < 2 or rank.is_persistent(rank.residencies[a]):
            continue
        after = [b for b in device if b != a and tasks[b] and tasks[a][-2] < tasks[b][0] < tasks[a][-1]]
        b = pick(random, after)
        if b is not None and place(rank, b, rank.residencies[a].offset):
            return f"residency {b} takes the place of {a} before its last touch"
    return None


def overlap(rank, random):
    tasks, device = touching(rank), residencies(rank, DEVICE)
    for _ in range(TRIES):
        a, b = random.sample(device, 2)
        if not tasks[a] or not tasks[b] or tasks[a][0] > tasks[b][-1] or tasks[b][0] > tasks[a][-1]:
            continue
        if place(rank, b, rank.residencies[a].offset + 512 * random.randrange(3)):
            return f"residency {b} lies over {a}"
    return None


def overlap_persistent(rank, random):
    """An activation over a parameter, gradient or optimizer state."""
    tasks, device = touching(rank), residencies(rank, DEVICE)
    lasting = [n for n in device if rank.is_persistent(rank.residencies[n])]
    for _ in range(TRIES if lasting else 0):
        a, b = random.choice(lasting), random.choice(device)
        if tasks[b] and b not in lasting and place(rank, b, rank.residencies[a].offset):
            return f"residency {b} lies over {a}, which outlives the step"
    return None


def shift(rank, random):
    """By a granule, or less where storages are smaller."""
    for _ in range(TRIES):
        n = random.choice(residencies(rank, DEVICE))
        by = random.choice((GRANULE, GRANULE, 64 << 10, 512)) * random.choice((-1, 1))
        if touching(rank)[n] and place(rank, n, rank.residencies[n].offset + by):
            return f"residency {n} shifted by {by}"
    return None


def reuse_pinned_early(rank, random):
    """A host block takes the bytes of another that is still to be read."""
    tasks, host = touching(rank), residencies(rank, 1 - DEVICE)
    for _ in range(TRIES if len(host) > 1 else 0):
        a, b = random.sample(host, 2)
        if tasks[a] and tasks[b] and tasks[a][0] < tasks[b][0] <= tasks[a][-1] + 60:
            if place(rank, b, rank.residencies[a].offset):
                return f"host residency {b} takes the place of {a}"
    return None


def exchange(rank, a, b):
    """What two slots of a lane do; waits stay with the slots."""
    x, y = rank.tasks[a], rank.tasks[b]
    for name in ("kind", "op_template", "site", "op", "storage", "touches", "message"):
        mine, other = getattr(x, name), getattr(y, name)
        setattr(x, name, other)
        setattr(y, name, mine)


def exchange_near(rank, random, kinds, within):
    candidates = of_kind(rank, *kinds)
    for _ in range(TRIES if candidates else 0):
        a = random.choice(candidates)
        lane = rank.tasks[a].lane
        near = [n for n in range(a + 1, min(a + 400, len(rank.tasks)))
                if rank.tasks[n].lane == lane and rank.tasks[n].kind in kinds][:within]
        b = pick(random, near)
        if b is not None:
            exchange(rank, a, b)
            return f"tasks {a} and {b} exchanged"
    return None


def swap_tasks(rank, random):
    return exchange_near(rank, random, (OP, RECOMPUTE), 4)


def swap_copies(rank, random):
    return exchange_near(rank, random, (SWAP_OUT, SWAP_IN), 3)


def swap_messages(rank, random):
    """Two messages of a direction take each other's tags."""
    lane = random.choice((3, 4))
    ends = [n for n, task in enumerate(rank.tasks) if task.message and task.lane == lane]
    if len(ends) < 2:
        return None
    at = random.randrange(len(ends) - 1)
    a, b = rank.tasks[ends[at]].message[1], rank.tasks[ends[at + 1]].message[1]
    if a["peer_rank"] != b["peer_rank"]:
        return None
    a["tag"], b["tag"] = b["tag"], a["tag"]
    return f"messages of tasks {ends[at]} and {ends[at + 1]} take each other's tags"


def redirect(rank, random, kinds, space, same_storage):
    """A copy reads or writes another residency of that memory."""
    for _ in range(TRIES):
        number = pick(random, of_kind(rank, *kinds))
        if number is None:
            return None
        task = rank.tasks[number]
        touch = next(k for k, (r, _) in enumerate(task.touches) if rank.residencies[r].space == space)
        was, kind = task.touches[touch]
        others = [n for n in residencies(rank, space) if n != was and rank.residencies[n].bytes == rank.residencies[was].bytes
                  and (rank.residencies[n].storage == rank.residencies[was].storage) == same_storage
                  and not rank.is_persistent(rank.residencies[n])]
        other = pick(random, others)
        if other is not None:
            task.touches[touch] = (other, kind)
            return f"copy {number} goes to or from residency {other} instead of {was}"
    return None


def stale_swap_in(rank, random):
    """Comes from the block of another storage, which may hold what it held before."""
    return redirect(rank, random, (SWAP_IN,), 1 - DEVICE, False)


def lost_swap_in(rank, random):
    """Lands in an earlier or later residency of the storage."""
    return redirect(rank, random, (SWAP_IN,), DEVICE, True)


def lost_swap_out(rank, random):
    """Goes to a block of its own, so that what comes back is what the pinned block held before."""
    number = pick(random, of_kind(rank, SWAP_OUT))
    if number is None:
        return None
    task = rank.tasks[number]
    touch = next(k for k, (r, _) in enumerate(task.touches) if rank.residencies[r].space != DEVICE)
    was = task.touches[touch][0]
    rank.residencies.append(copy.copy(rank.residencies[was]))
    task.touches[touch] = (len(rank.residencies) - 1, WRITE)
    room = rank.arenas[rank.residencies[was].arena]["height_bytes"] - rank.residencies[was].bytes
    if not place(rank, len(rank.residencies) - 1, random.randrange(room // 512 + 1) * 512):
        return None
    return f"copy {number} goes to a block of its own instead of {was}"


def forget_write(rank, random):
    """An op reads what it should make."""
    for _ in range(TRIES):
        number = pick(random, of_kind(rank, OP, RECOMPUTE))
        task = rank.tasks[number]
        writes = [k for k, (r, kind) in enumerate(task.touches) if kind == WRITE and not rank.is_persistent(rank.residencies[r])]
        touch = pick(random, writes)
        if touch is not None:
            task.touches[touch] = (task.touches[touch][0], READ)
            return f"task {number} reads residency {task.touches[touch][0]} instead of writing it"
    return None


def wrong_recipe(rank, random):
    """A recompute that runs another op over the same storages, or reads another storage."""
    number = pick(random, of_kind(rank, RECOMPUTE))
    if number is None:
        return None
    task = rank.tasks[number]
    if random.random() < 0.5:
        others = {t.op_template for t in rank.tasks if t.kind == OP} - {task.op_template}
        task.op_template = pick(random, sorted(others))
        return f"recompute {number} runs op {task.op_template}"
    touch = pick(random, [k for k, (_, kind) in enumerate(task.touches) if kind == READ])
    if touch is None:
        return None
    was, kind = task.touches[touch]
    others = [n for n in residencies(rank, DEVICE) if rank.residencies[n].storage != rank.residencies[was].storage]
    task.touches[touch] = (random.choice(others), kind)
    return f"recompute {number} reads residency {task.touches[touch][0]} instead of {was}"


def end_early(rank, random):
    """What is held, or must be there behind the step, ends before."""
    tasks = touching(rank)
    longer = [n for n in residencies(rank, DEVICE) if rank.last_task_of(rank.residencies[n]) > (tasks[n] or [0])[-1]]
    number = pick(random, longer)
    if number is None:
        return None
    residency = rank.residencies[number]
    last = max([residency.first_task, *tasks[number]])
    residency.last_task_after = last - residency.first_task
    rank.fixed.add(number)
    return f"residency {number} ends at task {last}"


def begin_late(rank, random):
    """What is there before the step begins where it is first touched."""
    tasks = touching(rank)
    number = pick(random, [n for n in residencies(rank, DEVICE) if tasks[n] and rank.residencies[n].first_task < tasks[n][0]])
    if number is None:
        return None
    residency = rank.residencies[number]
    last = rank.last_task_of(residency)
    residency.first_task, residency.last_task_after = tasks[number][0], last - tasks[number][0]
    rank.fixed.add(number)
    return f"residency {number} begins at task {residency.first_task}"


def overlap_held(rank, random):
    """Takes the bytes of what is there beyond its touches."""
    tasks, device = touching(rank), residencies(rank, DEVICE)
    for _ in range(TRIES):
        a, b = random.choice(device), random.choice(device)
        if a == b or not tasks[b]:
            continue
        first, last = (tasks[a][0], tasks[a][-1]) if tasks[a] else (len(rank.tasks), -1)
        before = rank.residencies[a].first_task <= tasks[b][0] and tasks[b][-1] < first
        behind = last < tasks[b][0] <= rank.last_task_of(rank.residencies[a])
        if (before or behind) and place(rank, b, rank.residencies[a].offset):
            return f"residency {b} lies over {a}, which nothing touches then"
    return None


def resize_copy(rank, random):
    """One side of a swap larger than the other."""
    at = [n for n, task in enumerate(rank.tasks) if task.kind in (SWAP_IN, SWAP_OUT)]
    if not at:
        return None
    n = random.choice(rank.tasks[random.choice(at)].touches)[0]
    r = rank.residencies[n]
    by = rank.arenas[r.arena]["alignment_bytes"]
    if r.offset + r.bytes + by > rank.arenas[r.arena]["height_bytes"]:
        return None
    r.bytes += by
    return f"residency {n} is larger by {by}"


KINDS = {f.__name__: f for f in (
    drop_wait, move_wait_back, move_wait_on, free_early, overlap, overlap_persistent, shift, reuse_pinned_early, swap_tasks,
    swap_copies, swap_messages, stale_swap_in, lost_swap_in, lost_swap_out, forget_write, resize_copy)}
# Of captured steps, which have one rank and say what their ops access.
CAPTURED_KINDS = {name: f for name, f in KINDS.items() if name != "swap_messages"} | {f.__name__: f for f in (
    wrong_recipe, end_early, begin_late, overlap_held)}


# --- back into the file ---------------------------------------------------------------------------------------------------


def column(values):
    return {"count": len(values), "data": list(values)}


def columns(rows, names):
    return {name: column([row[name] for row in rows]) for name in names}


def fit_stays(rank):
    """First and last tasks as the touches have them now, beyond them where content is there before the step, held or
    there behind it. What a mutation set stays."""
    task_of = {task.op: number for number, task in enumerate(rank.tasks) if task.kind == OP}
    firsts = set(rank.first_listed().values())
    for number, (residency, tasks) in enumerate(zip(rank.residencies, touching(rank))):
        storage = residency.storage
        if not tasks or number in rank.fixed:
            continue
        first, last = tasks[0], tasks[-1]
        if number in firsts:
            first = 0 if rank.initial[storage] else first
            until = task_of.get(rank.held_until[storage], -1)
            last = max(last, until) if first <= until else last
        if residency.full & FULL_BEHIND:
            last = len(rank.tasks) - 1
        residency.first_task, residency.last_task_after = first, last - first


def clocks(rank):
    """Per task what it has seen of each lane when it starts."""
    behind, last, seen, count = [], [[0] * LANES for _ in range(LANES)], [], [0] * LANES
    for task in rank.tasks:
        own = list(last[task.lane])
        for wait in task.waits:
            own = list(map(max, own, behind[wait]))
        seen.append(own)
        count[task.lane] += 1
        own = list(own)
        own[task.lane] = count[task.lane]
        last[task.lane] = own
        behind.append(own)
    return seen


def fit_clock(rank):
    """Acquire and release as the waits have them now: what a plan says of its clock is not what is broken here."""
    seen, position, computes = clocks(rank), [], []
    count = [0] * LANES
    for number, task in enumerate(rank.tasks):
        position.append(count[task.lane])
        count[task.lane] += 1
        if task.lane == COMPUTE:
            computes.append(number)
    end = 2 * len(computes)

    def starts(number):
        return 2 * position[number] if rank.tasks[number].lane == COMPUTE else max(0, 2 * seen[number][COMPUTE] - 1)

    def is_done(number):
        lane = rank.tasks[number].lane
        if lane == COMPUTE:
            return 2 * position[number] + 1
        return next((2 * k for k, task in enumerate(computes) if seen[task][lane] > position[number]), end)

    for residency, tasks in zip(rank.residencies, touching(rank)):
        if not tasks:
            continue
        begin = 0 if residency.first_task == 0 else min(map(starts, tasks))
        until = max(map(is_done, tasks))
        residency.acquire, residency.release_after = begin, until - begin


def program_of(rank, program):
    """The program's members with what the mutation changed; `program` stays as it is."""
    fit_stays(rank)
    if rank.graph is not None:  # its verifier reads the clock; that of jobs is left out
        fit_clock(rank)
    tasks = rank.tasks
    copies = [n for n, task in enumerate(tasks) if task.kind in (SWAP_OUT, SWAP_IN)]
    messages = [(*task.message, n) for n, task in enumerate(tasks) if task.message]
    sends = [dict(row, task=n) for is_send, row, n in messages if is_send]
    receives = [dict(row, task=n) for is_send, row, n in messages if not is_send]
    touches = [touch for task in tasks for touch in task.touches]
    return dict(
        program,
        tasks=dict(
            {name: column([getattr(task, name) for task in tasks]) for name in ("kind", "lane", "op_template", "site", "op")},
            waits=column([len(task.waits) for task in tasks]), touches=column([len(task.touches) for task in tasks]),
            copy_task=column(copies), copy_storage=column([tasks[n].storage for n in copies])),
        wait_back=column([n - wait for n, task in enumerate(tasks) for wait in task.waits]),
        touch_residency=column([residency for residency, _ in touches]),
        touch_kind=column([kind for _, kind in touches]),
        residencies=columns([vars(r) for r in rank.residencies], vars(rank.residencies[0])),
        sends=columns(sends, ("task", "peer_rank", "tag")),
        receives=columns(receives, ("task", "peer_rank", "tag", "arrival_estimate_ns")))


def copy_of(rank):
    """Deep enough to be mutated."""
    twin = copy.copy(rank)
    twin.fixed = set()  # residencies whose stay a mutation has set
    twin.residencies = [Residency(vars(r)) for r in rank.residencies]
    twin.tasks = [copy.copy(task) for task in rank.tasks]
    for task in twin.tasks:
        task.waits, task.touches = list(task.waits), list(task.touches)
        task.message = task.message and (task.message[0], dict(task.message[1]))
    return twin
