#!/usr/bin/env python3
"""Reads plan.json, as written by `tidemark plan --out plan.json`, with nothing but the standard library.

  read_plan.py plan.json                                     one line per rank
  read_plan.py plan.json --column 0/program/residencies/offset   the values of one column of rank 0, one a line
  read_plan.py plan.json --tasks 0 [--first N --count M]     tasks of rank 0 by name

`unfold` below is the whole of the column format; docs/formats.md describes it.
"""

import argparse
import json
import signal


def unfold(column):
    """The values of a folded column."""
    words, values, largest, total = [], [], -1, 0
    for entry in column["data"]:
        distance, length = entry if isinstance(entry, list) else (0, 1)
        for _ in range(length):
            words.append(words[-distance] if distance else entry)
    coding = column.get("coding", "plain")
    for place, word in enumerate(words):
        total += word
        recalled = values[place - word] if coding == "recall" and word > 0 else largest + 1 if word == 0 else -word - 1
        values.append({"plain": word, "delta": total, "recall": recalled}[coding])
        largest = max(largest, values[-1])
    assert len(values) == column["count"]
    return [value * column.get("scale", 1) for value in values]


def print_ranks(plan):
    print("rank   tasks  residencies   device GiB  pinned GiB  policy")
    for rank in plan["ranks"]:
        program = rank["program"]
        heights = {space: sum(a["height_bytes"] for a in program["arenas"] if a["space"] == space)
                   for space in ("device", "host")}
        print(f"{program['rank']:4} {program['tasks']['kind']['count']:7} {program['residencies']['bytes']['count']:12}"
              f" {heights['device'] / 2**30:12.3f} {heights['host'] / 2**30:11.3f}  {plan['policy']}")


def print_tasks(plan, rank, first, count):
    templates = plan["templates"][plan["ranks"][rank]["templates"]]
    tasks = plan["ranks"][rank]["program"]["tasks"]
    kinds, ops = unfold(tasks["kind"]), unfold(tasks["op_template"])
    lanes, sites = unfold(tasks["lane"]), unfold(tasks["site"])
    chunk, layer, micro_batch = (unfold(plan["ranks"][rank]["sites"][key]) for key in ("chunk", "layer", "micro_batch"))
    for task in range(first, min(first + count, len(kinds))):
        kind = ("op", "recompute", "swap_out", "swap_in")[kinds[task]]
        lane = ("compute", "intra_comm", "inter_comm", "send", "receive", "d2h", "h2d")[lanes[task]]
        name = templates["op_templates"][ops[task]][0] if ops[task] >= 0 else "copy"
        site = sites[task]
        print(f"{task:7} {lane:10} {kind:9} {name:40} chunk {chunk[site]} layer {layer[site]} "
              f"micro-batch {micro_batch[site]}")


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` is no error
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan")
    parser.add_argument("--column", help="position of a rank in `ranks`, then keys down to a column")
    parser.add_argument("--tasks", type=int, metavar="RANK")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=40)
    arguments = parser.parse_args()
    with open(arguments.plan, encoding="utf-8") as file:
        plan = json.load(file)
    if plan["schema"] != "tidemark.plan" or plan["schema_version"] != 9:
        raise SystemExit(f"{arguments.plan}: not a plan of schema version 9")
    if arguments.column:
        rank, *keys = arguments.column.split("/")
        column = plan["ranks"][int(rank)]
        for key in keys:
            column = column[key]
        print("\n".join(map(str, unfold(column))))
    elif arguments.tasks is not None:
        print_tasks(plan, arguments.tasks, arguments.first, arguments.count)
    else:
        print_ranks(plan)


if __name__ == "__main__":
    main()
