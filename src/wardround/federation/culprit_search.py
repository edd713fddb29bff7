"""Find the site that spoils the sums of a study by leaving sites out.

Under masks nobody sees a single update, and a wrong one shows only in the sum. The round is tried again without some of
its sites. If the sum is good without them, the culprit is among them, otherwise among the others; each try halves the
suspects, as far as the study's `minimum_sites` allows leaving sites out. The last suspect takes part again and is
excluded when a sum is spoiled once more.

This finds the site whose presence coincides with spoiled sums. An attacker that spoils sums only while another site
takes part incriminates that site; sums alone cannot distinguish the two.
"""

from __future__ import annotations

from collections.abc import Sequence

from wardround.federation.federation import SiteId

__all__ = ["CulpritSearch"]


class CulpritSearch:
    """Decides which sites sit out the next try, and which are excluded permanently."""

    def __init__(self, minimum: int = 1) -> None:
        self.minimum = minimum  # fewest sites in a sum
        self.excluded: list[SiteId] = []  # permanently
        self._suspects: list[SiteId] = []
        self._sitting_out: list[SiteId] = []

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

    def _spare(self, sites: Sequence[SiteId]) -> int:
        """Return how many sites can be left out, of those that were in the last sum or sat it out."""
        return len({*sites, *self._sitting_out}) - self.minimum

    def _half(self, spare: int) -> list[SiteId]:
        """Return about half of the suspects; none of a single one, which takes part again."""
        return self._suspects[: min(spare, len(self._suspects) // 2)]
