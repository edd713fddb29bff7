"""Which layers of a model a study shares and which stay at the site.

A model names its layers in groups, bottom to top. A split assigns every group to one half; it is stated once, on the
model, and everything that sends, stores or transfers parameters asks it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from wardround.errors import ModelError

__all__ = ["OUTPUT_GROUPS", "LayeredModel", "ParameterSplit"]

OUTPUT_GROUPS = ("output", "crf")  # the groups whose shape depends on the tags


@dataclass(frozen=True)
class ParameterSplit:
    """The names of the layer groups in either half, bottom to top."""

    shared: tuple[str, ...]
    private: tuple[str, ...]

    def __post_init__(self) -> None:
        both = set(self.shared) & set(self.private)
        if both:
            raise ModelError(f"a layer group cannot be shared and private: {', '.join(sorted(both))}")

    @classmethod
    def sharing(cls, names: Sequence[str], groups: Sequence[str]) -> ParameterSplit:
        """Share the groups called `names`, keep the rest of `groups` private."""
        unknown = [name for name in names if name not in groups]
        if unknown:
            raise ModelError(f"no layer group is called {', '.join(unknown)}; this model has {', '.join(groups)}")
        shared = tuple(group for group in groups if group in names)
        return cls(shared, tuple(group for group in groups if group not in names))


class LayeredModel(nn.Module):
    """A module whose parameters lie in named groups, bottom to top, each shared or private."""

    split: ParameterSplit

    def settings(self) -> dict[str, Any]:
        """The configuration as plain values."""
        raise NotImplementedError

    @property
    def outputs(self) -> tuple[str, ...]:
        """What its output layers score, in their order, and all by which the same names could mean something else."""
        raise NotImplementedError

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return next(self.parameters()).device

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the layer groups, bottom to top."""
        raise NotImplementedError

    def group_of(self, parameter: str) -> str:
        """The group a parameter name belongs to; unless a model says otherwise, its first component."""
        return parameter.partition(".")[0]

    def parameters_in(self, groups: Sequence[str]) -> dict[str, nn.Parameter]:
        """The trainable parameters of the named groups, in a fixed order."""
        return {
            name: parameter
            for name, parameter in self.named_parameters()
            if parameter.requires_grad and self.group_of(name) in groups
        }

    def output_names(self, names: Iterable[str]) -> list[str]:
        """Those of the named parameters that lie in output layers, which may have a learning rate of their own."""
        return [name for name in names if self.group_of(name) in OUTPUT_GROUPS]

    def shared_parameters(self) -> dict[str, nn.Parameter]:
        """The half that takes part in a study."""
        return self.parameters_in(self.split.shared)

    def private_parameters(self) -> dict[str, nn.Parameter]:
        """The half that never leaves its site."""
        return self.parameters_in(self.split.private)
