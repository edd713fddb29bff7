"""One network for many sites: on one machine, sites that keep nothing in theirs work in the same one.

Where every layer is shared, each step that uses a site's network fills all of it first, from the question or from the
site's copy of the shared half. What is a site's own lies beside the network: Adam's moments, an update that is held.
So sites that answer one after the other can be lent one network, however many they are. They read the public set once,
and the models they end with, which are equal, lie on disk once.
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
    """Lends networks to the sites of a study in one process; a site with private layers gets one of its own."""

    def __init__(self, study: Study, device: torch.device) -> None:
        self._study, self._device = study, device
        self._networks: dict[tuple[tuple[str, ...], str, str], LayeredModel] = {}  # by what they score
        self._lent: dict[tuple[tuple[str, ...], str, str], LayeredModel] = {}  # by what sites annotate
        self._public: dict[int, PublicSet] = {}
        self._kept: Path | None = None  # the first model that was written

    def network(self, types: TagSet, *, scheme: str, encoder: str) -> LayeredModel:
        """The network of a site that annotates `types`; a lent one is as the site before left it."""
        _give_back()
        key = (types.types, scheme, encoder)
        if key not in self._lent:
            built = model_of(self._study, types, scheme=scheme, encoder=encoder).to(self._device)
            if built.private_parameters():
                return built
            # Under a shared top, sites that annotate other types have the same network.
            self._lent[key] = self._networks.setdefault((built.outputs, scheme, encoder), built)
        return self._lent[key]

    def public(self, task: Task) -> PublicSet:
        """The public set as examples for a site's network, whatever the site annotates."""
        if not self._lends(task.model):
            return public_set(self._study, task)
        key = id(task.model)  # of a network that lives as long as this object
        if key not in self._public:
            self._public[key] = public_set(self._study, task)
        return self._public[key]

    def keep(self, model: LayeredModel, folder: Path, *, notes: Mapping[str, Any]) -> None:
        """Write the model that a site ends with; of a lent one, what another site's folder holds too is linked."""
        save_model(model, folder, notes=notes)
        if self._lends(model):
            self._kept = self._kept or folder
            for file in folder.iterdir():
                _link(file, self._kept / file.name)

    def _lends(self, model: LayeredModel) -> bool:
        return any(model is lent for lent in self._networks.values())


def _give_back() -> None:
    """Return to the system what sites that were closed have freed.

    The allocator of glibc keeps it where something small lies above it: with a thousand sites, an eighth more memory.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None  # of glibc alone
    if trim is not None:
        trim(0)


def _link(file: Path, like: Path) -> None:
    """Make a file another name of one that holds the same; where the disk cannot, it stays a copy."""
    if not like.is_file() or file.samefile(like) or not filecmp.cmp(file, like, shallow=False):
        return
    partial = file.with_name(file.name + ".partial")
    try:
        os.link(like, partial)
    except OSError:
        return
    partial.replace(file)
