"""One network for many sites: on one machine, sites without private layers use the same network in turn.

If every layer is shared, each step that uses a site's network first sets all of its parameters, from the request or
from the site's copy of the shared half. A site's own state is kept outside the network: Adam's moments, and an update
that is not yet sent. Any number of sites that answer one after the other can therefore use one network. They read the
public set once, and their final models, which are equal, are stored on disk once.
"""

from __future__ import annotations

import ctypes
import filecmp
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from wardround.federation.site_runtime import PublicSet
from wardround.models.parameter_split import LayeredModel
from wardround.models.saved import save_model
from wardround.studies.assemble import model_of
from wardround.studies.study_file import Study
from wardround.studies.study_notes import public_set
from wardround.tasks.task import Task
from wardround.text.tag_sets import TagSet

__all__ = ["SharedModelPool"]


class SharedModelPool:
    """The networks of a study's sites in one process; a site with private layers gets a network of its own."""

    def __init__(self, study: Study, device: torch.device) -> None:
        self._study, self._device = study, device
        self._by_scored_types: dict[tuple[tuple[str, ...], str, str], LayeredModel] = {}
        self._by_annotated_types: dict[tuple[tuple[str, ...], str, str], LayeredModel] = {}
        self._public: dict[int, PublicSet] = {}
        self._first_saved: Path | None = None  # folder of the first model that was written

    def network(self, types: TagSet, *, scheme: str, encoder: str) -> LayeredModel:
        """Return the network of a site that annotates `types`; a shared one has the previous site's parameters."""
        _trim_heap()
        key = (types.types, scheme, encoder)
        if key not in self._by_annotated_types:
            built = model_of(self._study, types, scheme=scheme, encoder=encoder).to(self._device)
            if built.private_parameters():
                return built
            # If the output layers are shared, sites that annotate different types have the same network.
            self._by_annotated_types[key] = self._by_scored_types.setdefault((built.outputs, scheme, encoder), built)
        return self._by_annotated_types[key]

    def public(self, task: Task) -> PublicSet:
        """Return the public set as examples for a site's network; they do not depend on what the site annotates."""
        if not self._is_shared(task.model):
            return public_set(self._study, task)
        key = id(task.model)  # unique, because the network lives as long as this object
        if key not in self._public:
            self._public[key] = public_set(self._study, task)
        return self._public[key]

    def save(self, model: LayeredModel, folder: Path, *, notes: Mapping[str, Any]) -> None:
        """Write the final model of a site; files of a shared network that equal another site's become hard links."""
        save_model(model, folder, notes=notes)
        if self._is_shared(model):
            self._first_saved = self._first_saved or folder
            for file in folder.iterdir():
                _link_if_equal(file, self._first_saved / file.name)

    def _is_shared(self, model: LayeredModel) -> bool:
        return any(model is shared for shared in self._by_scored_types.values())


def _trim_heap() -> None:
    """Return the memory that closed sites have freed to the operating system.

    The allocator of glibc keeps it if a small block lies above it: with a thousand sites, an eighth more memory.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None  # only glibc has it
    if trim is not None:
        trim(0)


def _link_if_equal(file: Path, like: Path) -> None:
    """Replace a file by a hard link to a file with the same content; keep the copy if the disk has no hard links."""
    if not like.is_file() or file.samefile(like) or not filecmp.cmp(file, like, shallow=False):
        return
    partial = file.with_name(file.name + ".partial")
    try:
        os.link(like, partial)
    except OSError:
        return
    partial.replace(file)
