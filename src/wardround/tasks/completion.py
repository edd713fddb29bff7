"""Named entities at a site that annotates only some of the study's types (Wang 2023, Sections 3.2 and 3.3).

A teacher, which is the current model of the study, predicts mentions of the other types in the site's sentences. The
loss of a sentence has two parts: the site's own annotation, and what the teacher adds to it. None of this leaves the
site.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from wardround.models.crf import Posterior
from wardround.models.tagging_model import Inputs, MentionModel, SplitLoss, tag_scoring
from wardround.tasks.batching import in_length_order
from wardround.tasks.ner import NerTask, TaggedSentence
from wardround.text.tag_schemes import split_tag
from wardround.text.tag_sets import complete_annotation

__all__ = ["CompletedNer", "TeacherLabels", "UnknownLabelling"]

# How a word outside the site's own mentions is labelled. pseudo: with the teacher's predictions; posterior: with the
# teacher's probabilities; partial: any type that is not annotated here; outside: as if all types were annotated.
UnknownLabelling = Literal["pseudo", "posterior", "partial", "outside"]


@dataclass(frozen=True)
class TeacherLabels:
    """The teacher's predictions for a site's sentences, in their order; empty if there is no teacher yet."""

    tags: Sequence[Tensor] = field(default=(), repr=False)  # with pseudo: rows of the completed tags
    posteriors: Sequence[Posterior] = field(default=(), repr=False)  # with posterior, each without padding


class CompletedNer:
    """The sentences of a site, with labels for the types that it does not annotate."""

    def __init__(
        self, task: NerTask, sentences: Sequence[TaggedSentence], unknown: UnknownLabelling, *, outside: float = 0.0
    ) -> None:
        self.sentences, self.unknown, self.outside = sentences, unknown, outside
        self.types = task.model.tag_set if unknown == "outside" else task.types  # types that count as annotated
        self.model: MentionModel = task.model
        self.annotated = torch.tensor([split_tag(tag)[1] in self.types for tag in self.model.tags])

    @torch.inference_mode()
    def teacher_labels(self, *, batch_size: int = 64) -> TeacherLabels:
        """Predict the other types in every sentence with the current model, without dropout."""
        self.model.eval()
        tags: list[Tensor] = [torch.empty(0)] * len(self.sentences)
        posteriors = [Posterior(tags[0], tags[0])] * len(self.sentences)
        scheme = self.model.scheme
        for rows in in_length_order([len(sentence.words) for sentence in self.sentences], batch_size):
            if self.unknown == "pseudo":  # the local annotation with the predicted mentions of other types (Eq. 5)
                for row, decoded in zip(rows, self.model.decode(self._inputs(rows)), strict=True):
                    local, predicted = scheme.spans(self.sentences[row].tags), scheme.spans(decoded)
                    spans = complete_annotation(local, predicted, self.types)
                    tags[row] = self._rows_of(scheme.encode(spans, len(decoded)))
            elif self.unknown == "posterior":
                model = tag_scoring(self.model)
                batch = model.posterior(self._inputs(rows), self._local(rows), annotated=self.annotated)
                for row, words, steps in zip(rows, batch.words.cpu(), batch.steps.cpu(), strict=True):
                    posteriors[row] = Posterior(words[: len(self.sentences[row].words)], steps)
        if self.unknown == "pseudo":
            return TeacherLabels(tags=tags)
        return TeacherLabels(posteriors=posteriors) if self.unknown == "posterior" else TeacherLabels()

    def losses(self, rows: Sequence[int], taught: TeacherLabels) -> SplitLoss:
        """Return the losses of some sentences, given by their numbers."""
        inputs, local, device = self._inputs(rows), self._local(rows), self.model.device
        if taught.posteriors:
            chosen = [taught.posteriors[row] for row in rows]
            words = pad_sequence([posterior.words for posterior in chosen], batch_first=True)
            steps = torch.stack([posterior.steps for posterior in chosen])
            return tag_scoring(self.model).posterior_loss(
                inputs,
                local,
                Posterior(words.to(device), steps.to(device)),
                annotated=self.annotated,
                outside=self.outside,
            )
        tags = None
        if taught.tags:
            tags = pad_sequence([taught.tags[row] for row in rows], batch_first=True).to(device)
        return self.model.split_loss(inputs, local, tags, annotated=self.annotated, outside=self.outside)

    def _inputs(self, rows: Sequence[int]) -> Inputs:
        return self.model.prepare([self.sentences[row].words for row in rows]).to(self.model.device)

    def _local(self, rows: Sequence[int]) -> Tensor:
        tags = [self._rows_of(self.sentences[row].tags) for row in rows]
        return pad_sequence(tags, batch_first=True).to(self.model.device)

    def _rows_of(self, tags: Sequence[str]) -> Tensor:
        return torch.tensor([self.model.tag_rows[tag] for tag in tags])
