"""The coordinator's end of a networked study: listen, conduct it, say when it is over."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TextIO

from wardround.errors import WardroundError
from wardround.federation.engines.flare.cells import LARGEST_BODY, open_line
from wardround.federation.engines.flare.flare_federation import FlareFederation
from wardround.federation.engines.flare.kits import Kit
from wardround.federation.engines.flare.quiet import DONE, FAULT, REFUSED, Interruption, quiet
from wardround.federation.engines.flare.requests import Signatures, digest_of

__all__ = ["serve"]

_log = logging.getLogger(__name__)


def serve(
    kit: Kit,
    conduct: Callable[[FlareFederation, TextIO], None],
    *,
    signatures: Signatures,
    deadline: float,
    largest: int = LARGEST_BODY,
) -> int:
    """Run the coordinator in this process: `conduct` the study, then tell the sites that it is over; the exit code.

    `conduct` is given the sites and the terminal, on which nobody else prints. What it refuses is printed in a line
    and not to be tried again; any other error of it is. Must be called in the main thread.
    """
    terminal = quiet(kit.path)
    interruption = Interruption(raises=True)
    try:
        with closing(open_line(kit, largest=largest)) as line:
            study, sites = digest_of(kit.study), kit.plan.sites
            federation = FlareFederation(line, sites, study=study, signatures=signatures, deadline=deadline)
            conduct(federation, terminal)
            federation.say_over()
        return DONE
    except WardroundError as error:
        print(f"{type(error).__name__}: {error}", file=terminal, flush=True)
        return REFUSED
    except KeyboardInterrupt:
        return interruption.code
    except Exception as error:
        # Without its text, which might quote what a site sent.
        frame = traceback.extract_tb(error.__traceback__)[-1]
        _log.error("the study broke off: %s at %s:%d", type(error).__name__, Path(frame.filename).name, frame.lineno)
        return FAULT
