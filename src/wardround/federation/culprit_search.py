"""Find, by leaving sites out, which one spoils the sums of a study.

Under masks, nobody sees a single update: that one is wrong shows only in the sum. The round is tried again without some
of its sites. A good sum without them puts the fault among those left out, a spoiled one among the others; each answer
halves the suspects, as far as the study's `minimum_sites` lets sites be left out. The last suspect takes part again,
and is excluded when a sum is spoiled once more.

What this finds is the site whose presence goes with spoiled sums. An attacker that spoils sums only while another site
takes part puts the blame on that site; sums alone cannot tell the two apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from wardround.federation.federation import SiteId

__all__ = ["CulpritSearch"]


class CulpritSearch:
    """Says which sites sit out the next try, and which are out for good."""

    def __init__(self, minimum: int = 1) -> None:
        self.minimum = minimum  # sites that must stay in a sum
        self.excluded: list[SiteId] = []  # for good
        self._suspects: list[SiteId] = []
        self._sitting_out: list[SiteId] = []

    @property
    def absent(self) -> frozenset[SiteId]:
        """Who is not asked in the coming round."""
        return frozenset([*self.excluded, *self._sitting_out])

    def exclude(self, site: SiteId) -> None:
        """Leave out for good a site that is known to have cheated."""
        if site not in self.excluded:
            self.excluded.append(site)
        self._suspects, self._sitting_out = [], []

    def note_good(self, sites: Sequence[SiteId]) -> None:
        """The sum of these sites was good: one of those that sat out is to blame for the last spoiled one."""
        if self._sitting_out:
            spare = self._spare(sites)
            self._suspects = self._sitting_out
            self._sitting_out = self._half(spare)

    def note_spoiled(self, sites: Sequence[SiteId]) -> bool:
        """The sum of these sites was spoiled; False where no site can be done without, so that nothing is found."""
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

    def _spare(self, sites: Sequence[SiteId]) -> int:
        """How many sites a sum can do without, of those that were in the last one or sat it out."""
        return len({*sites, *self._sitting_out}) - self.minimum

    def _half(self, spare: int) -> list[SiteId]:
        """About half of the suspects; none where there is only one, who takes part again."""
        return self._suspects[: min(spare, len(self._suspects) // 2)]
