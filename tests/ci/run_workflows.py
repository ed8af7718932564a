"""Carries out the Dockerfile, the GitHub workflow and the GitLab jobs of integrations/ci, and the pre-commit hook, as written.

    run_workflows.py TIDEMARK [--compile]

No container is started: the Dockerfile's steps run in a chroot (container.py), and in its last stage the `run:` blocks and
`script:` lines run by the shell, with the options and in the environment that GitHub and GitLab give them. In place of the
minutes that the compiling step takes, TIDEMARK, a program built on Debian 12, is put where that step leaves its own;
--compile carries that step out, too. What cannot
run here is SKIPPED, with the reason.
"""

import argparse
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

import container
import validate_formats
from hosted_runs import Hosted, check, gitlab_jobs, run_github, run_gitlab
from sample_repository import Repository

CHECKOUT = pathlib.Path(__file__).resolve().parents[2]
CI = CHECKOUT / "integrations" / "ci"
COMPILE_STEP = "cmake --build /build --target tidemark"


# Of the sample repository, with the exit status of a gate on a pull request of it, and JOBS of its workflow.
BRANCHES = {"same": (0, "pretrain.sh"), "grown": (1, "pretrain.sh"), "renamed": (1, "launch.sh")}


def sample_repository(folder, tidemark):
    repository = Repository(folder, tidemark)
    repository.open_pull_request("same")
    repository.open_pull_request("grown")
    repository.replace("pretrain.sh", "--micro-batch-size 1", "--micro-batch-size 8")
    repository.commit("Raise the micro-batch to eight")
    repository.git("checkout", "--quiet", "-b", "renamed")
    repository.git("mv", "pretrain.sh", "launch.sh")
    repository.replace("tidemark-budget.yaml", "script: pretrain.sh", "script: launch.sh")
    repository.commit("Rename the launch script")
    return repository


def tracked_files(target):
    """The checkout as `COPY . .` sees it: what git tracks or would."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=CHECKOUT, capture_output=True, check=True
    )
    for name in listed.stdout.decode().rstrip("\0").split("\0"):
        if (CHECKOUT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CHECKOUT / name, target / name)


def build_image(tidemark, is_compiled, scratch):
    """The Dockerfile carried out, its last stage open."""
    container.require_namespace()
    context = scratch / "context"
    tracked_files(context)

    def put_program(root):
        place = root / "build/integrations/cli/tidemark"
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(tidemark, place)

    instead = {} if is_compiled else {COMPILE_STEP: put_program}
    dockerfile = CI / "Dockerfile"
    check(
        COMPILE_STEP in [rest for _, rest in container.parse_dockerfile(dockerfile.read_text())],
        f"{dockerfile}: there is no RUN {COMPILE_STEP}",
    )
    build = container.Build(dockerfile, context, CHECKOUT / ".cache" / "ci-container", scratch, instead)
    said = container.run_in(build.stage.open(), shlex.join(build.command), build.stage.workdir).stdout
    check("tidemark" in said, f"CMD {build.command} prints {said!r}")
    missing = [name for name in ("g++", "cmake", "ninja") if (build.stage.root / "usr/bin" / name).exists()]
    check(not missing, f"the last stage carries {', '.join(missing)}")
    return build


def try_github(root, repository, branch, status, jobs):
    hosted = Hosted(root, repository, branch)
    steps = run_github(hosted, jobs)
    check(len(steps) == 2, f"{len(steps)} steps ran")
    for name, found, output, summary in steps:
        check(found == status, f"step {name!r} on {branch}: exit status {found}, not {status}\n{output}")
        check(
            ("::error" in output) == (status == 1),
            f"step {name!r} on {branch}: errors are shown where none are, or none\n{output}",
        )
        check(summary.stat().st_size > 0, f"step {name!r} on {branch}: an empty summary")
        validate_formats.CHECKS["markdown"](summary)
    validate_formats.CHECKS["sarif"](hosted.path("tidemark.sarif"))
    check(summary.read_text().count("pretrain.sh") > 0, "the comparison's summary does not name the job")


def try_gitlab(root, repository, branch, status, jobs):
    for name, job in gitlab_jobs().items():
        hosted = Hosted(root, repository, branch)
        found, output = run_gitlab(hosted, job, jobs)
        check(found == status, f"job {name} on {branch}: exit status {found}, not {status}\n{output}")
        reports = list(hosted.path("").glob(job["artifacts"]["reports"]["junit"]))
        check(reports, f"job {name} on {branch}: no report for GitLab\n{output}")
        for report in reports:
            validate_formats.CHECKS["junit"](report)
        for path in job["artifacts"].get("paths", []):
            check(hosted.path(path).exists(), f"job {name} on {branch}: no {path}")


def try_hook(repository, tidemark, branch, status):
    """pre-commit itself runs the hook of the checkout's manifest, at a commit of one file whose ending tells of no job."""
    repository.git("checkout", "--quiet", branch)
    repository.write("node/launch.bash", "#!/bin/bash\n")
    repository.git("add", "node/launch.bash")
    with tempfile.TemporaryDirectory() as scratch:
        program = pathlib.Path(scratch) / "bin" / "tidemark"
        program.parent.mkdir()
        program.symlink_to(tidemark)
        hooks = pathlib.Path(scratch) / "hooks"  # a repository of the manifest as it is, committed or not
        hooks.mkdir()
        shutil.copy(CHECKOUT / ".pre-commit-hooks.yaml", hooks)
        identity = ["-c", "user.name=A Person", "-c", "user.email=person@example.org"]
        for words in (["init", "--quiet"], ["add", "."], [*identity, "commit", "--quiet", "--message", "Hook"]):
            subprocess.run(["git", *words], cwd=hooks, check=True)
        ran = subprocess.run(
            [sys.executable, "-m", "pre_commit", "try-repo", hooks, "tidemark-check", "--color=never"],
            cwd=repository.folder,
            env={"PATH": f"{program.parent}:/usr/bin:/bin", "HOME": scratch, "PRE_COMMIT_HOME": f"{scratch}/pre-commit"},
            capture_output=True,
            text=True,
        )
    repository.git("rm", "--quiet", "--force", "node/launch.bash")
    check(ran.returncode == status, f"hook on {branch}: exit status {ran.returncode}, not {status}\n{ran.stdout}{ran.stderr}")
    check(("Failed" if status else "Passed") in ran.stdout, f"hook on {branch}:\n{ran.stdout}")


class Tally:
    """What was tried, a line each."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def attempt(self, name, act, *arguments):
        """What `act` returns; nothing where it fails or cannot run here."""
        try:
            made = act(*arguments)
        except container.Unavailable as reason:
            self.skipped += 1
            print(f"SKIPPED {name}: {reason}", flush=True)
            return None
        except (AssertionError, RuntimeError) as error:
            self.failed += 1
            print(f"FAILED  {name}: {error}", flush=True)
            return None
        self.passed += 1
        print(f"ok      {name}", flush=True)
        return made


def run_all(options, scratch):
    tally = Tally()
    repository = sample_repository(scratch / "repository", options.tidemark)
    for branch, (status, _) in BRANCHES.items():
        tally.attempt(f"pre-commit hook, branch {branch}", try_hook, repository, options.tidemark, branch, status)
    build = tally.attempt("Dockerfile", build_image, options.tidemark, options.compile, scratch)
    if build is None:
        return tally
    try:
        root = build.stage.open()
        for branch, (status, jobs) in BRANCHES.items():
            tally.attempt(f"github.yml, branch {branch}", try_github, root, repository, branch, status, jobs)
            tally.attempt(f"gitlab.yml, branch {branch}", try_gitlab, root, repository, branch, status, jobs)
    finally:
        build.close()
    return tally


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tidemark", type=lambda name: pathlib.Path(name).resolve())
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()
    container.enter_namespace()
    cache = CHECKOUT / ".cache"
    cache.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="ci-run-") as scratch:
        tally = run_all(options, pathlib.Path(scratch))
    print(f"run_workflows: {tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
