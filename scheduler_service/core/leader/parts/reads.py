"""Reads of single rows that the database has not answered yet."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class RowReads:
    """`in_progress`: the runs being read; true once memory has changed meanwhile, so that the row may be outdated.

    `_refused`: runs that are read because the database refused their dispatch.
    """

    in_progress: dict[str, bool] = field(default_factory=dict)
    _refused: set[str] = field(default_factory=set)

    def begin(self, run_id: str) -> bool:
        """Record that the run is to be read; false if it is being read already."""
        if run_id in self.in_progress:
            return False
        self.in_progress[run_id] = False
        return True

    def outdate(self, run_id: str) -> None:
        """Mark a read of this run in progress as outdated."""
        if run_id in self.in_progress:
            self.in_progress[run_id] = True

    def answered(self, run_id: str) -> bool:
        """Record the answer, and return whether it is outdated."""
        return self.in_progress.pop(run_id, False)

    def dispatch_refused(self, run_id: str) -> None:
        """Remember why the run is read."""
        self._refused.add(run_id)

    def take_refused(self, run_id: str) -> bool:
        """Whether the run was read because its dispatch was refused; forgets it."""
        if run_id not in self._refused:
            return False
        self._refused.discard(run_id)
        return True
