"""What Lee et al. (2017) published, as far as its text gives numbers; its figures give no others."""

from __future__ import annotations

from collections.abc import Mapping

# F1 in percent on i2b2 2014 without and with transfer from MIMIC, by percent of the whole data set that is trained on.
# The official training part is 60% of it.
I2B2_2014: Mapping[int, tuple[float, float]] = {5: (90.12, 93.21), 60: (97.80, 97.97)}
FULL = 60  # percent of the data set that the official training part is
# With transfer this percentage of the data set is as good as the other without.
SAME_F1 = (16, 34)
# Table 1.
CORPORA: Mapping[str, Mapping[str, int]] = {
    "MIMIC": {"notes": 1_635, "words": 2_945_228, "mentions": 60_725},
    "i2b2 2014": {"notes": 1_304, "words": 984_723, "mentions": 28_867},
    "i2b2 2016": {"notes": 1_000, "words": 2_689_196, "mentions": 41_142},
}
