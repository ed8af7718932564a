"""Follows a page to the letter: in one shell and a fresh folder it types every command of the `console` blocks, in order, saves
the files that stand between them, and holds what is printed against what the page says.

    follow_page.py [--seconds N] PAGE WHEEL    WHEEL is put into the folder, as the page assumes

A command that has not ended after N seconds (default 300) is ended, and the page has failed.

A line `$ command` is typed. The lines behind it are what it prints, all of them, in order, stdout and stderr together; a line
`...` stands for any lines, `...` within a line for any text. A command without lines behind it may print nothing. A block that
opens with a language and a file name (```yaml tidemark-budget.yaml) is that file. Other blocks are for reading.
"""

import argparse
import dataclasses
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

END = "end-of-command-5c1f"
MOST_SECONDS = 300  # `pip install pre-commit` and its first run fetch what they need


@dataclasses.dataclass
class Command:
    line: int
    text: str
    prints: list


@dataclasses.dataclass
class File:
    line: int
    name: str
    lines: list


def steps_of(page):
    """Commands and files in the order of the page."""
    steps, language = [], None
    for number, line in enumerate(page.splitlines(), 1):
        if line.startswith("```"):
            language, _, name = line[3:].partition(" ") if language is None else (None, "", "")
            if name:
                steps.append(File(number, name, []))
                language = "file"
        elif language == "file":
            steps[-1].lines.append(line)
        elif language == "console" and line.startswith("$ "):
            steps.append(Command(number, line[2:], []))
        elif language == "console":
            steps[-1].prints.append(line)
    return steps


def pattern_of(lines):
    """What a page says is printed, as a regular expression of the whole output."""
    parts = []
    for line in lines:
        if line == "...":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(".*?".join(re.escape(part) for part in line.split("...")) + r"\n")
    return re.compile("".join(parts))


class Shell:
    """One bash for all commands, so that `cd`, variables, an activated environment and `$?` last."""

    def __init__(self, folder, most_seconds):
        self.most_seconds = most_seconds
        self.unread = b""
        keep = ("PATH", "LANG", "PIP_CERT", "SSL_CERT_FILE", "http_proxy", "https_proxy", "no_proxy")
        environment = {name: os.environ[name] for name in keep if name in os.environ}
        environment |= {"HOME": str(folder), "LC_ALL": "C.UTF-8", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        self.process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env=environment,
            start_new_session=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def type(self, text):
        """What the command prints. The status is kept for the next command's `$?`."""
        self.process.stdin.write(f'{text}\n_s=$?; printf "\\n%s\\n" {END}; (exit $_s)\n'.encode())
        self.process.stdin.flush()
        # The line feed that is printed ahead of the mark is not the command's.
        output = self.read_to(f"\n{END}\n".encode()).decode().replace("\r\n", "\n")
        return output if output.endswith("\n") or not output else output + "\n"

    def read_to(self, mark):
        """What is printed ahead of the mark."""
        deadline = time.monotonic() + self.most_seconds
        while mark not in self.unread:
            if not select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))[0]:
                self.end()
                raise AssertionError(f"not ended after {self.most_seconds:g} s, printed until then:\n{self.printed()}")
            some = os.read(self.process.stdout.fileno(), 1 << 16)
            if not some:
                raise AssertionError(f"the shell has ended:\n{self.printed()}")
            self.unread += some
        output, _, self.unread = self.unread.partition(mark)
        return output

    def printed(self):
        return self.unread.decode(errors="replace")

    def end(self):
        """The shell with all that it started and waits for: they are a group of their own."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.end()


def take(step, shell, folder, page):
    if isinstance(step, File):
        (folder / step.name).write_text("".join(line + "\n" for line in step.lines))
        return f"saved {step.name}"
    begun = time.monotonic()
    try:
        printed = shell.type(step.text)
    except AssertionError as error:
        raise AssertionError(f"{page}:{step.line}: $ {step.text}\n{error}") from error
    if not pattern_of(step.prints).fullmatch(printed):
        said = "".join(line + "\n" for line in step.prints)
        raise AssertionError(f"{page}:{step.line}: $ {step.text}\nthe page says:\n{said}printed:\n{printed}")
    return f"{step.text} ({time.monotonic() - begun:.1f} s)"


def follow(page, wheel, most_seconds):
    steps = steps_of(page.read_text())
    if not any(isinstance(step, Command) for step in steps):
        raise AssertionError(f"{page}: no command in it")
    with tempfile.TemporaryDirectory() as home:
        folder = pathlib.Path(home) / "newcomer"
        folder.mkdir()
        shutil.copy(wheel, folder)
        shell = Shell(folder, most_seconds)
        try:
            for step in steps:
                print(f"ok      line {step.line}: {take(step, shell, folder, page)}", flush=True)
        finally:
            shell.close()
    return len(steps)


def main():
    parser = argparse.ArgumentParser(description="Follows a page to the letter.")
    parser.add_argument("--seconds", type=float, default=MOST_SECONDS, help="a command may take (default %(default)s)")
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("wheel", type=pathlib.Path)
    asked = parser.parse_args()
    try:
        count = follow(asked.page.resolve(), asked.wheel.resolve(), asked.seconds)
    except AssertionError as error:
        print(f"FAILED  {error}")
        return 1
    print(f"follow_page: {count} passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
