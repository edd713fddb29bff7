"""Read a corpus although some parts of it are faulty: leave them out, count them and list them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from wardround.corpora.corpus_format import Problem, ProblemSink, Severity, fail_on_error

__all__ = ["SkippedFaults", "sink_of"]

_LISTED = 20  # faults that a message lists


@dataclass
class SkippedFaults:
    """A sink that collects errors instead of raising the first one. It ignores warnings, as the default sink does.

    A reader leaves out the part that it reports: a mention, a relation, a line or a file. What cannot be read at all,
    such as a folder without any file of the format, is still an error.
    """

    problems: list[Problem] = field(default_factory=list)

    def __call__(self, problem: Problem) -> None:
        """Keep an error."""
        if problem.severity is Severity.ERROR:
            self.problems.append(problem)

    def sentences(self) -> Iterator[str]:
        """Yield the number of faulty parts, then the place and reason of each; none if there are none."""
        found = self.problems
        if not found:
            return
        yield f"{len(found):,} faulty {'part was' if len(found) == 1 else 'parts were'} left out"
        for problem in found[:_LISTED]:
            name = "" if problem.path is None else problem.path.name
            line = "" if problem.line is None else f":{problem.line}"
            yield f"left out: {name}{line}: {problem.message}"
        if len(found) > _LISTED:
            yield f"and {len(found) - _LISTED:,} more; `wardround data check` lists all"


def sink_of(faults: SkippedFaults | None) -> ProblemSink:
    """Return the sink for a reader: the collecting one, or the one that raises the first error."""
    return fail_on_error if faults is None else faults
