"""Runs what GitHub Actions and GitLab CI run of our workflows, in a root where the image of the Dockerfile is mounted."""

import pathlib
import subprocess
import uuid

import container
import yaml

OF_NO_FORK = "github.event.pull_request.head.repo.full_name == github.repository"
WORKFLOWS = pathlib.Path(__file__).resolve().parents[2] / "integrations" / "ci" / "workflows"


def check(condition, what):
    if not condition:
        raise AssertionError(what)


class Hosted:
    """A clone of the sample repository in the root, on a branch, with `origin` beside it: what a runner has checked out."""

    def __init__(self, root, repository, branch):
        self.root = root
        self.name = uuid.uuid4().hex[:8]
        self.place = f"/builds/{self.name}/repository"
        origin = root / "srv" / f"{self.name}.git"
        origin.parent.mkdir(exist_ok=True)
        subprocess.run(["git", "clone", "--quiet", "--bare", repository.folder, origin], check=True)
        folder = self.path("")
        folder.parent.mkdir(parents=True)
        subprocess.run(["git", "clone", "--quiet", origin, folder], check=True)
        subprocess.run(["git", "checkout", "--quiet", "--detach", f"origin/{branch}"], cwd=folder, check=True)
        subprocess.run(["git", "remote", "set-url", "origin", f"/srv/{self.name}.git"], cwd=folder, check=True)

    def path(self, name):
        return self.root / self.place.lstrip("/") / name

    def run(self, script, environment, shell):
        """The step's files are given by name, as both runners do it."""
        file = f"/tmp/step-{uuid.uuid4().hex[:8]}.sh"
        (self.root / file.lstrip("/")).write_text(script)
        return container.run_in(self.root, file, self.place, environment, shell, check=False)


def run_github(hosted, jobs):
    """Runs the steps of the one job with JOBS as given: [(name, status, output, summary)]."""
    workflow = yaml.safe_load((WORKFLOWS / "github.yml").read_text())
    (job,) = workflow["jobs"].values()
    check(workflow[True] == "pull_request", "the workflow is not for pull requests")  # YAML 1.1 reads `on` as true
    check(job["container"] == "${{ vars.TIDEMARK_IMAGE }}", "the job runs in no container of ours")
    temporary = f"/tmp/runner-{hosted.name}"
    (hosted.root / temporary.lstrip("/")).mkdir(parents=True)
    environment = {
        "CI": "true",
        "GITHUB_ACTIONS": "true",
        "GITHUB_WORKSPACE": hosted.place,
        "GITHUB_BASE_REF": "main",
        "GITHUB_HEAD_REF": "change",
        "GITHUB_EVENT_NAME": "pull_request",
        "RUNNER_TEMP": temporary,
        **{name: str(value) for name, value in job.get("env", {}).items()},
        "JOBS": jobs,
    }
    check(job["defaults"]["run"]["shell"] == "bash", "another shell than the one this test knows")
    shell = ("bash", "--noprofile", "--norc", "-e", "-o", "pipefail")
    done, has_failed = [], False
    for step in job["steps"]:
        if "run" not in step:
            check("uses" in step, f"a step of neither kind: {step}")
            check("upload-sarif" not in step["uses"] or OF_NO_FORK in step["if"], "a fork's pull request uploads what it may not")
            continue
        check(step.get("if") in (None, "${{ !cancelled() }}"), f"a condition this test does not know: {step.get('if')}")
        if has_failed and "if" not in step:
            continue
        summary = f"{temporary}/summary-{len(done)}.md"
        (hosted.root / summary.lstrip("/")).touch()
        ran = hosted.run(step["run"], {**environment, "GITHUB_STEP_SUMMARY": summary}, shell)
        has_failed = has_failed or ran.returncode != 0
        done.append((step["name"], ran.returncode, ran.stdout + ran.stderr, hosted.root / summary.lstrip("/")))
    return done


def gitlab_jobs():
    """{name: job} with `extends` carried out, hidden ones left out."""
    file = yaml.safe_load((WORKFLOWS / "gitlab.yml").read_text())

    def extended(job):
        parent = job.get("extends")
        return {**extended(file[parent]), **job} if parent else job

    return {name: extended(job) for name, job in file.items() if not name.startswith(".")}


def run_gitlab(hosted, job, jobs):
    """The script of a job with JOBS as given: (status, output)."""
    check(job["image"] == "$TIDEMARK_IMAGE", "the job runs in no image of ours")
    environment = {
        "CI": "true",
        "GITLAB_CI": "true",
        "CI_PROJECT_DIR": hosted.place,
        "CI_PIPELINE_SOURCE": "merge_request_event",
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
        **{name: str(value) for name, value in job.get("variables", {}).items()},
        "JOBS": jobs,
        # git of the runner's image trusts the project's folder
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
    }
    ran = hosted.run("set -eo pipefail\n" + "\n".join(job["script"]) + "\n", environment, ("bash",))
    return ran.returncode, ran.stdout + ran.stderr
