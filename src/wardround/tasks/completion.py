"""Named entities at a site that annotates only some of the study's types (Wang 2023, Sections 3.2 and 3.3).

A teacher, the model as the study has it so far, says what of the other types is in the site's sentences; the loss of a
sentence has two parts, what the site's own annotation says and what the teacher adds to it. Nothing of this leaves the
site.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from wardround.models.crf import Posterior
from wardround.models.tagging_model import Inputs, SplitLoss, TaggingModel
from wardround.tasks.ner import NerTask, TaggedSentence
from wardround.tasks.task import in_length_order
from wardround.text.tag_schemes import split_tag
from wardround.text.tag_sets import complete_annotation

__all__ = ["CompletedNer", "Taught", "Unknown"]

# What a word without a mention of the site's own may be: what the teacher finds there, or, softly, expects there;
# anything else that is not annotated here; or nothing, as if all types had been looked for.
Unknown = Literal["pseudo", "posterior", "partial", "outside"]


@dataclass(frozen=True)
class Taught:
    """What a teacher said of a site's sentences, in their order; empty where there is none yet."""

    tags: Sequence[Tensor] = field(default=(), repr=False)  # of pseudo: rows of the completed tags
    posteriors: Sequence[Posterior] = field(default=(), repr=False)  # of posterior, each without padding


class CompletedNer:
    """The sentences of a site, read with what their annotation leaves open."""

    def __init__(
        self, task: NerTask, sentences: Sequence[TaggedSentence], unknown: Unknown, *, outside: float = 0.0
    ) -> None:
        self.sentences, self.unknown, self.outside = sentences, unknown, outside
        self.types = task.model.tag_set if unknown == "outside" else task.types  # those that were looked for
        self.model: TaggingModel = task.model
        self.annotated = torch.tensor([split_tag(tag)[1] in self.types for tag in self.model.tags])

    @torch.inference_mode()
    def ask(self, *, batch_size: int = 64) -> Taught:
        """Have the model as it is now, without dropout, complete every sentence."""
        self.model.eval()
        tags: list[Tensor] = [torch.empty(0)] * len(self.sentences)
        posteriors = [Posterior(tags[0], tags[0])] * len(self.sentences)
        for rows in in_length_order([len(sentence.words) for sentence in self.sentences], batch_size):
            if self.unknown == "pseudo":
                for row, found in zip(rows, self._completed(rows), strict=True):
                    tags[row] = found
            elif self.unknown == "posterior":
                for row, expected in zip(rows, self._expected(rows), strict=True):
                    posteriors[row] = expected
        return {"pseudo": Taught(tags=tags), "posterior": Taught(posteriors=posteriors)}.get(self.unknown, Taught())

    def losses(self, rows: Sequence[int], taught: Taught) -> SplitLoss:
        """Of some sentences, by their place among all."""
        return self.model.split_loss(
            self._inputs(rows),
            self._local(rows),
            self._taught(rows, taught),
            annotated=self.annotated,
            outside=self.outside,
        )

    def _completed(self, rows: Sequence[int]) -> Iterator[Tensor]:
        """Eq. 5: local annotation, and what the model finds of other types."""
        scheme = self.model.scheme
        for row, decoded in zip(rows, self.model.decode(self._inputs(rows)), strict=True):
            local = scheme.spans(self.sentences[row].tags)
            spans = complete_annotation(local, scheme.spans(decoded), self.types)
            yield self._rows_of(scheme.encode(spans, len(decoded)))

    def _expected(self, rows: Sequence[int]) -> Iterator[Posterior]:
        found = self.model.posterior(self._inputs(rows), self._local(rows), annotated=self.annotated)
        for row, words, steps in zip(rows, found.words.cpu(), found.steps.cpu(), strict=True):
            yield Posterior(words[: len(self.sentences[row].words)], steps)

    def _taught(self, rows: Sequence[int], taught: Taught) -> Tensor | Posterior | None:
        device = self.model.device
        if taught.tags:
            return pad_sequence([taught.tags[row] for row in rows], batch_first=True).to(device)
        if taught.posteriors:
            chosen = [taught.posteriors[row] for row in rows]
            words = pad_sequence([posterior.words for posterior in chosen], batch_first=True)
            return Posterior(words.to(device), torch.stack([posterior.steps for posterior in chosen]).to(device))
        return None

    def _inputs(self, rows: Sequence[int]) -> Inputs:
        return self.model.prepare([self.sentences[row].words for row in rows]).to(self.model.device)

    def _local(self, rows: Sequence[int]) -> Tensor:
        tags = [self._rows_of(self.sentences[row].tags) for row in rows]
        return pad_sequence(tags, batch_first=True).to(self.model.device)

    def _rows_of(self, tags: Sequence[str]) -> Tensor:
        return torch.tensor([self.model.tag_rows[tag] for tag in tags])
