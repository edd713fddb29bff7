"""Hospitals with tiny networks, for the tests of federated algorithms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from tests.models.tiny import TINY, TYPES, notes

from wardround.algorithms.fedner import ALGORITHM
from wardround.federation.aggregation import AggregationClient
from wardround.federation.engines.in_process import InProcessFederation
from wardround.federation.federation import Replies, SiteId
from wardround.federation.message import Message
from wardround.federation.site_runtime import RequestPolicy, Site, SiteNotes, Step
from wardround.federation.worker_process import RequestHandler
from wardround.models.presets import GROUPS
from wardround.models.word_tagger import WordTagger
from wardround.secure_aggregation.plain import PlainClient
from wardround.secure_aggregation.replica import Replica
from wardround.tasks.ner import NerTask, encode
from wardround.text.document import Document
from wardround.text.tag_sets import TagSet

NOTES = notes(6)
CALM = replace(TINY, lstm=0, word_cnn=8, input_dropout=0.0, dropout=0.0)  # no dropout
SHAKEN = replace(CALM, input_dropout=0.3, dropout=0.3)
ALL_SHARED = replace(CALM, shared=GROUPS)


def site(
    folder: Path,
    name: str = "harbour",
    *,
    config: object = CALM,
    documents: Sequence[Document] = NOTES,
    types: TagSet = TYPES,
    model_seed: int = 0,
    durable: bool = False,
    keeps_last: bool = False,
    steps: Mapping[str, Step] = ALGORITHM.site_steps,
    request_policy: RequestPolicy | None = None,
    aggregation: AggregationClient | None = None,
    replica: Replica | None = None,
) -> Site:
    """A site with a folder of its own below `folder`."""
    torch.manual_seed(model_seed)
    model = WordTagger(config, types)  # type: ignore[arg-type]
    train = encode(documents, types, model.scheme).sentences
    held = SiteNotes(train, documents[:2], documents[:2])
    return Site(
        name,
        NerTask(model),
        held,
        aggregation=aggregation or PlainClient(folder / name, durable=durable),
        steps=steps,
        folder=folder / name,
        seed=7,
        durable=durable,
        keeps_last=keeps_last,
        request_policy=request_policy,
        replica=replica,
    )


class Listening(InProcessFederation):
    """Sites in this process; it remembers the name of every array that passes, and can leave sites out."""

    def __init__(self, sites: Sequence[SiteId], open_site: Callable[[SiteId], Site], *, open_at_once: int = 16) -> None:
        self.opened: dict[SiteId, Site] = {}
        self.names: set[str] = set()
        self.missing: set[SiteId] = set()

        def remember(name: SiteId) -> RequestHandler:
            if name in self.missing:
                raise ConnectionError
            self.opened[name] = open_site(name)
            return RequestHandler(self.opened[name])

        super().__init__(sites, remember, open_at_once=open_at_once)

    def ask(self, step: str, message: Message, *, to: Sequence[SiteId] | None = None) -> Replies:
        """As the engine does, listening."""
        self.names |= message.arrays.keys()
        return self._heard(super().ask(step, message, to=to))

    def _heard(self, replies: Replies) -> Replies:
        for reply in replies:
            if reply.message is not None:
                self.names |= reply.message.arrays.keys()
            yield reply

    def tell(self, step: str, number: int) -> None:
        """Ask a step of everybody, who must all do it."""
        assert all(reply.absence is None for reply in self.ask(step, Message({"round": number})))
