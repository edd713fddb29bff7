"""The months and weekdays of the languages that notes are written in, small letters, whole and cut short."""

from __future__ import annotations

__all__ = ["MONTH_NAMES", "WEEKDAY_NAMES"]


def _numbered(words: str) -> list[tuple[str, int]]:
    return [(name, number) for number, names in enumerate(words.split(), start=1) for name in names.split("/")]


# A name and the number of its month; the first name of a month that is as long as another's takes its place.
MONTH_NAMES: dict[str, list[tuple[str, int]]] = {
    "en": _numbered(
        "january/jan february/feb march/mar april/apr may june/jun july/jul august/aug september/sept/sep "
        "october/oct november/nov december/dec"
    ),
    "es": _numbered(
        "enero/ene febrero/feb marzo/mar abril/abr mayo/may junio/jun julio/jul agosto/ago "
        "septiembre/setiembre/sept/sep octubre/oct noviembre/nov diciembre/dic"
    ),
}
# Monday is 1.
WEEKDAY_NAMES: dict[str, list[tuple[str, int]]] = {
    "en": _numbered(
        "monday/mon tuesday/tues/tue wednesday/weds/wed thursday/thurs/thur/thu friday/fri saturday/sat sunday/sun"
    ),
    "es": _numbered("lunes martes miércoles/miercoles jueves viernes sábado/sabado domingo"),
}
