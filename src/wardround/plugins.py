"""Extensions from installed packages, found through the entry points of Python packaging.

A package adds an algorithm, a corpus format or a model family by naming it in its `pyproject.toml`:

    [project.entry-points."wardround.algorithms"]
    myalgorithm = "mypackage.myalgorithm:ALGORITHM"

The groups are `wardround.algorithms`, `wardround.formats` and `wardround.models`. Installing a package is the owner's
decision; nothing that a study file or a coordinator sends can install or import one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from wardround.errors import UsageError

__all__ = ["Plugins", "Registry", "package_of", "plugins"]

Entry = TypeVar("Entry")


class Plugins(Mapping[str, Any]):
    """The entry points of one group, by name; each is imported when it is first looked up."""

    def __init__(self, group: str) -> None:
        self._entry_points: dict[str, EntryPoint] = {}
        self._loaded: dict[str, Any] = {}
        for entry in sorted(entry_points(group=group), key=lambda entry: (entry.name, entry.value)):
            if entry.name in self._entry_points:
                first = self._entry_points[entry.name]
                raise UsageError(
                    f"two installed packages define {entry.name!r} in {group}: {package_of(first)} and "
                    f"{package_of(entry)}; uninstall one of them"
                )
            self._entry_points[entry.name] = entry

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            entry = self._entry_points[name]
            try:
                self._loaded[name] = entry.load()
            except Exception as error:  # a plugin can fail in any way; the user must learn which package it is
                raise UsageError(
                    f"{name!r} of {entry.group} cannot be loaded from {package_of(entry)}: "
                    f"{type(error).__name__}: {error}; repair or uninstall that package"
                ) from error
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entry_points)

    def __len__(self) -> int:
        return len(self._entry_points)

    def package(self, name: str) -> str:
        """Return the name and version of the package that defines `name`."""
        return package_of(self._entry_points[name])


@cache
def plugins(group: str) -> Plugins:
    """Return what installed packages declare in an entry-point group, by name.

    Packages are searched once per process. An object is imported on its first lookup; a UsageError names the package
    if that fails, or the two packages if both declare one name.
    """
    return Plugins(group)


def package_of(entry: EntryPoint) -> str:
    """Return the name and version of the package that declares an entry point."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown package"


class Registry(Mapping[str, Entry], Generic[Entry]):
    """The built-in entries of one kind, followed by those of installed packages.

    Creating a registry searches nothing, so a module may hold one as a constant. Looking up a name that is built in and
    also declared by a package raises a UsageError, and so does an entry of a package that is not of type `kind`.
    """

    def __init__(self, group: str, builtin: Mapping[str, Entry], *, kind: type = object) -> None:
        self._group, self._builtin, self._kind = group, builtin, kind

    def __getitem__(self, name: str) -> Entry:
        installed = plugins(self._group)
        if name not in self._builtin:
            entry: Entry = installed[name]
            if not isinstance(entry, self._kind):
                raise UsageError(
                    f"{name!r} of {self._group} in {installed.package(name)} is {type(entry).__name__}, not "
                    f"{self._kind.__name__}; repair or uninstall that package"
                )
            return entry
        if name in installed:
            raise UsageError(
                f"{name!r} of {self._group} is built in, and {installed.package(name)} defines it again; "
                "uninstall that package"
            )
        return self._builtin[name]

    def __contains__(self, name: object) -> bool:
        return name in self._builtin or name in plugins(self._group)

    def __iter__(self) -> Iterator[str]:
        yield from self._builtin
        yield from (name for name in plugins(self._group) if name not in self._builtin)

    def __len__(self) -> int:
        return sum(1 for _ in self)
