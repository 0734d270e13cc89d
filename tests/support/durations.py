"""`deploy test --durations`: a pytest plugin that shows where the time of a run goes.

Owns wall and CPU seconds of each test file, of starting and collecting, and how long processes had nothing left to do.
CPU is of the test process and of the children that it reaped; a server that outlives a test counts where it is stopped.
"""

import os
import time
from collections import defaultdict
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pytest

MOST_FILES: Final = 60
_TESTS_OF_FILE: Final = 0.5
"""A test is named below its file if it takes at least this part of the file's seconds, and a second."""


class Phase(NamedTuple):
    """One phase of one test, as its report carries it."""

    nodeid: str
    when: str
    process: str
    wall: float
    cpu: float
    ended: float

    @property
    def file(self) -> str:
        return self.nodeid.partition("::")[0]


@dataclass
class Sums:
    """Seconds of one file: its tests, and what was set up and torn down around them."""

    tests: int = 0
    wall: float = 0
    cpu: float = 0
    around_wall: float = 0
    around_cpu: float = 0
    by_test: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, phase: Phase) -> None:
        """Count one phase."""
        if phase.when == "call":
            self.tests += 1
            self.wall += phase.wall
            self.cpu += phase.cpu
        else:
            self.around_wall += phase.wall
            self.around_cpu += phase.cpu
        self.by_test[phase.nodeid] += max(phase.wall, phase.cpu)

    @property
    def longest(self) -> float:
        return max(self.wall + self.around_wall, self.cpu + self.around_cpu)


class Durations:
    """Measures in each process that runs tests; the one that reports adds up and prints."""

    def __init__(self, config: pytest.Config) -> None:
        self._process: str = getattr(config, "workerinput", {}).get("workerid", "main")
        self._last = _cpu()
        self._collected: dict[str, float] = {}
        self._phases: list[Phase] = []
        self._began = time.time()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note what starting and collecting cost this process."""
        self._last = _cpu()
        output: dict[str, Any] = getattr(session.config, "workeroutput", {})
        output["collecting"] = self._collected[self._process] = self._last

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Let the report carry what was used since the one before."""
        report = yield
        now = _cpu()
        report.cpu_seconds, self._last = now - self._last, now  # type: ignore[attr-defined]
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the phases of all processes."""
        process = getattr(report, "worker_id", self._process)
        cpu: float = report.cpu_seconds  # type: ignore[attr-defined]
        self._phases.append(Phase(report.nodeid, report.when or "", process, report.duration, cpu, report.stop))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take the figures of a process that ended as it should."""
        output: dict[str, float] = getattr(node, "workeroutput", {})
        if "collecting" in output:
            self._collected[node.gateway.id] = output["collecting"]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table."""
        terminalreporter.section("where the time went")
        for line in table(self._phases, self._collected, self._began):
            terminalreporter.write_line(line)


def pytest_configure(config: pytest.Config) -> None:
    """Measure this run."""
    config.pluginmanager.register(Durations(config), "itinerary-durations")


def table(phases: Iterable[Phase], collected: dict[str, float], began: float) -> list[str]:
    """The files, slowest first; then the whole run and the ends of its processes."""
    files: dict[str, Sums] = defaultdict(Sums)
    ends: dict[str, float] = {}
    cpu_of: dict[str, float] = defaultdict(float)
    for phase in phases:
        files[phase.file].add(phase)
        ends[phase.process] = max(ends.get(phase.process, 0), phase.ended)
        cpu_of[phase.process] += phase.cpu
    slowest = sorted(files.items(), key=lambda entry: -entry[1].longest)
    lines = ["   tests, seconds    set-up, seconds", "   wall       CPU    wall       CPU  tests  file"]
    for file, sums in slowest[:MOST_FILES]:
        lines.append(_line(sums, file))
        for nodeid, seconds in sums.by_test.items():
            if seconds >= max(1, _TESTS_OF_FILE * sums.longest) and sums.tests > 1:
                lines.append(f"{'':46}{seconds:.1f} s of it: {nodeid.partition('::')[2]}")
    if slowest[MOST_FILES:]:
        lines.append(_line(_sum(sums for _, sums in slowest[MOST_FILES:]), f"{len(slowest) - MOST_FILES} more files"))
    lines.append(_line(_sum(files.values()), "all of them"))
    lines.append(f"starting and collecting: {sum(collected.values()):.1f} CPU s in {len(collected)} processes")
    for process, end in sorted(ends.items(), key=lambda entry: entry[1]):
        lines.append(f"{process}: last test ended after {end - began:.1f} s; {cpu_of[process]:.1f} CPU s in tests")
    return lines


def _line(sums: Sums, name: str) -> str:
    seconds = f"{sums.wall:7.1f} {sums.cpu:9.1f} {sums.around_wall:7.1f} {sums.around_cpu:9.1f}"
    return f"{seconds} {sums.tests:6}  {name}"


def _sum(all_of: Iterable[Sums]) -> Sums:
    total = Sums()
    for sums in all_of:
        total.tests += sums.tests
        total.wall += sums.wall
        total.cpu += sums.cpu
        total.around_wall += sums.around_wall
        total.around_cpu += sums.around_cpu
    return total


def _cpu() -> float:
    return sum(os.times()[:4])
