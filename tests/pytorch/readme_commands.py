"""What a README tells its reader to type, and what it says that is printed."""

import re


def blocks(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def commands(text):
    """(command, lines that it prints) in order."""
    found = []
    for block in blocks(text, "console"):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def follow(printed, expected):
    """What is expected, in order; "..." is anything."""
    rest = iter(map(_without_numbers, printed))
    for line in map(_without_numbers, expected):
        assert line == "..." or line in rest, f"{line!r} is not printed, or not there:\n" + "\n".join(printed)


def _without_numbers(line):
    return re.sub(r"\d+(\.\d+)?(e-\d+)?", "N", line).replace("'N'", "N")
