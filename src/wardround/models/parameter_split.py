"""The base class of every model, and the split of its layers into shared and private ones.

A model names its layers in groups, bottom to top. A split assigns every group to one half. The split is stated once, on
the model; all code that sends, stores or transfers parameters reads it there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from wardround.errors import ModelError
from wardround.models.probes import Probes

__all__ = ["OUTPUT_GROUPS", "LayeredModel", "ParameterSplit", "TrainingOnlyModule"]

OUTPUT_GROUPS = ("output", "crf")  # the groups whose shape depends on the tags


@dataclass(frozen=True)
class ParameterSplit:
    """The names of the layer groups in each half, bottom to top."""

    shared: tuple[str, ...]
    private: tuple[str, ...]

    def __post_init__(self) -> None:
        both = set(self.shared) & set(self.private)
        if both:
            raise ModelError(f"a layer group cannot be shared and private: {', '.join(sorted(both))}")

    @classmethod
    def sharing(cls, names: Sequence[str], groups: Sequence[str]) -> ParameterSplit:
        """Share the groups called `names` and keep the rest of `groups` private."""
        unknown = [name for name in names if name not in groups]
        if unknown:
            raise ModelError(f"no layer group is called {', '.join(unknown)}; this model has {', '.join(groups)}")
        shared = tuple(group for group in groups if group in names)
        return cls(shared, tuple(group for group in groups if group not in names))


class LayeredModel(nn.Module):
    """A network whose parameters belong to named groups, bottom to top, each of them shared or private."""

    kind: ClassVar[str] = ""  # the name of its model family
    scores_tags: ClassVar[bool] = False  # it scores every tag of every word (see `TaggingModel`)
    split: ParameterSplit
    training_only: tuple[str, ...] = ()  # names of the groups added by `attach`

    def __init__(self) -> None:
        super().__init__()
        self.probes = Probes()  # replaced by models whose states can be recorded

    def settings(self) -> dict[str, Any]:
        """Return the configuration as plain values."""
        raise NotImplementedError

    @property
    def outputs(self) -> tuple[str, ...]:
        """Return the names of the outputs in order, and everything else that gives them their meaning."""
        raise NotImplementedError

    @property
    def device(self) -> torch.device:
        """Return the device of the parameters."""
        return next(self.parameters()).device

    @property
    def groups(self) -> tuple[str, ...]:
        """Return the names of the layer groups, bottom to top."""
        raise NotImplementedError

    @property
    def possible_groups(self) -> tuple[str, ...]:
        """Return the names of the groups that any configuration of this kind of model can have."""
        return self.groups

    @property
    def not_distillable(self) -> str:
        """Return why its class scores cannot be distilled row by row, as in "ends in a CRF"; empty if they can."""
        return ""

    def group_of(self, parameter: str) -> str:
        """Return the group that a parameter belongs to: by default the first component of its name."""
        return parameter.partition(".")[0]

    def attach(self, name: str, module: TrainingOnlyModule) -> None:
        """Add a shared layer group that serves training alone and is not part of the trained model."""
        # First, because gradients are clipped in this order, and the order of a sum decides its last bit.
        self._modules = {name: module, **self._modules}
        self.training_only = (*self.training_only, name)
        self.split = ParameterSplit((*self.split.shared, name), self.split.private)

    def parameters_in(self, groups: Sequence[str]) -> dict[str, nn.Parameter]:
        """Return the trainable parameters of the named groups, in a fixed order."""
        return {
            name: parameter
            for name, parameter in self.named_parameters()
            if parameter.requires_grad and self.group_of(name) in groups
        }

    def output_names(self, names: Iterable[str]) -> list[str]:
        """Return those of the named parameters that belong to output layers, which may have their own learning rate."""
        return [name for name in names if self.group_of(name) in OUTPUT_GROUPS]

    def shared_parameters(self) -> dict[str, nn.Parameter]:
        """Return the parameters that the sites of a study share."""
        return self.parameters_in(self.split.shared)

    def private_parameters(self) -> dict[str, nn.Parameter]:
        """Return the parameters that never leave their site."""
        return self.parameters_in(self.split.private)


class TrainingOnlyModule(nn.Module):
    """Layers that serve training alone: the `state_dict` of a model that contains them leaves them out."""

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Save nothing."""

    def _load_from_state_dict(self, *given: Any) -> None:
        """Load nothing; the layers keep their weights."""
