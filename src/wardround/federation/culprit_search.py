"""The search for the site that spoils the sums of a study, or causes steps that most sites reject."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from wardround.errors import SpoiledSumError, WithheldSeedError
from wardround.federation.federation import SiteId
from wardround.training.state_files import tensors_under

__all__ = ["CulpritSearch"]

# A site may withhold the seeds of so many rounds, as a site does that fails between two phases.
_MOST_WITHHELD, _ROUNDS_PER_WITHHELD = 2, 20


class CulpritSearch:
    """Finds the site that spoils the sums of a study: decides which sites sit out the next try and which are excluded.

    Under masks nobody sees a single update, and a wrong one shows only in the sum. The round is tried again without
    some of its sites. If the sum is good without them, the culprit is among them, otherwise among the others; each try
    halves the suspects, as far as the study's `minimum_sites` allows leaving sites out. The last suspect takes part
    again and is excluded when a sum is spoiled once more.

    This finds the site whose presence coincides with spoiled sums. An attacker that spoils sums only while another site
    takes part incriminates that site; sums alone cannot distinguish the two.
    """

    def __init__(self, minimum: int = 1) -> None:
        self.minimum = minimum  # fewest sites in a sum
        self.excluded: list[SiteId] = []  # permanently
        self.patience = 1  # rejected rounds in a row before sites sit out
        self._suspects: list[SiteId] = []
        self._sitting_out: list[SiteId] = []
        self._rejections = 0  # in a row
        self._withheld: Counter[SiteId] = Counter()  # rounds that a site spoiled by not sending a seed

    @property
    def absent(self) -> frozenset[SiteId]:
        """Return the sites that are not asked in the next round."""
        return frozenset([*self.excluded, *self._sitting_out])

    def exclude(self, site: SiteId) -> None:
        """Exclude a site that is known to have cheated."""
        if site not in self.excluded:
            self.excluded.append(site)
        self._suspects, self._sitting_out = [], []

    def note_good(self, sites: Sequence[SiteId]) -> None:
        """Note that the sum of these sites was good: a site that sat out spoiled the last one."""
        if self._sitting_out:
            spare = self._spare(sites)
            self._suspects = self._sitting_out
            self._sitting_out = self._half(spare)

    def note_spoiled(self, sites: Sequence[SiteId]) -> bool:
        """Note that the sum of these sites was spoiled; return False if no site can be left out to find the culprit."""
        self._suspects = [site for site in self._suspects if site in sites] or list(sites)
        spare = self._spare(sites)
        if spare < 1:
            self._suspects, self._sitting_out = [], []
            return False
        if len(self._suspects) == 1:
            self.exclude(self._suspects[0])
        else:
            self._sitting_out = self._half(spare)
        return True

    def after_spoiled_sum(self, error: SpoiledSumError) -> str:
        """Decide which sites sit out the next try; return the sentence that says so."""
        if error.culprit:
            self.exclude(error.culprit)
            return f"{error}; it is excluded from the study"
        before = len(self.excluded)
        if not self.note_spoiled(error.sites):
            return f"{error}: a site spoils it, but minimum_sites allows leaving none out, so it cannot be found"
        if len(self.excluded) > before:
            return f"{error}: {self.excluded[-1]} spoils it, and is excluded from the study"
        return f"{error}: a site spoils it; the round is tried without {', '.join(sorted(self.absent))}"

    def after_withheld_seeds(self, error: WithheldSeedError, sites: Sequence[SiteId], *, number: int) -> str:
        """Exclude a site that spoils rounds by withholding seeds more often than failures explain; return what to say.

        `number` is that of the round, and `sites` took part in it.
        """
        self._withheld.update(error.sites)
        most = _MOST_WITHHELD + number // _ROUNDS_PER_WITHHELD
        for site in error.sites:
            if self._withheld[site] > most and len(sites) > self.minimum:
                self.exclude(site)
                return f"{error}; {site} has done so {self._withheld[site]} times and is excluded from the study"
        return str(error)

    def after_round(self, sites: Sequence[SiteId], *, rejected: bool) -> tuple[str, str]:
        """Note a finished round; return what follows from a rejection of its step, and why the study must stop."""
        if not rejected:
            self._rejections = 0
            self.note_good(sites)
            return "", ""
        self._rejections += 1
        said = "most sites found the step harmful; it was not taken"
        if self._rejections < self.patience and not self._suspects:
            return said, ""
        before = len(self.excluded)
        if not self.note_spoiled(sites):
            stop = (
                f"most sites found the steps of {self._rejections} rounds in a row harmful; minimum_sites allows "
                "leaving no site out, so the one that causes it cannot be found. Ask the sites, or lower minimum_sites"
            )
            return said, stop
        if len(self.excluded) > before:
            return f"{said}; {self.excluded[-1]} causes it, and is excluded from the study", ""
        without = ", ".join(sorted(self.absent))
        return f"{said}; the next round is tried {f'without {without}' if without else 'with all sites'}", ""

    def state(self) -> dict[str, Tensor]:
        """Return what must be saved, so that an interrupted search goes on."""
        tensors = {f"withheld/{site}": torch.tensor(count) for site, count in self._withheld.items()}
        for name, sites in self._lists().items():
            tensors |= {f"{name}/{site}": torch.tensor(place) for place, site in enumerate(sites)}
        return tensors | ({"rejections": torch.tensor(self._rejections)} if self._rejections else {})

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        for name, sites in self._lists().items():
            places = tensors_under(name, tensors)
            sites[:] = sorted(places, key=lambda site: int(places[site]))
        self._withheld = Counter({site: int(count) for site, count in tensors_under("withheld", tensors).items()})
        self._rejections = int(tensors.get("rejections", 0))

    def _lists(self) -> dict[str, list[SiteId]]:
        return {"excluded": self.excluded, "suspects": self._suspects, "sitting_out": self._sitting_out}

    def _spare(self, sites: Sequence[SiteId]) -> int:
        """Return how many sites can be left out, of those that were in the last sum or sat it out."""
        return len({*sites, *self._sitting_out}) - self.minimum

    def _half(self, spare: int) -> list[SiteId]:
        """Return about half of the suspects; none of a single one, which takes part again."""
        return self._suspects[: min(spare, len(self._suspects) // 2)]
