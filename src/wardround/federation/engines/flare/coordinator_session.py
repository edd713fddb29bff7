"""The coordinator's process in a networked study: listen, run the study, tell the sites that it is over."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TextIO

from wardround.errors import WardroundError
from wardround.federation.engines.flare.cells import LARGEST_BODY, open_connection
from wardround.federation.engines.flare.flare_federation import FlareFederation
from wardround.federation.engines.flare.quiet import DONE, FAULT, REFUSED, Interruption, redirect_output
from wardround.federation.engines.flare.requests import FlareParty, Signatures

__all__ = ["run_coordinator_session"]

_log = logging.getLogger(__name__)


def run_coordinator_session(
    party: FlareParty,
    conduct: Callable[[FlareFederation, TextIO], None],
    *,
    signatures: Signatures,
    deadline: float,
    largest: int = LARGEST_BODY,
) -> int:
    """Run the coordinator in this process and return the exit code.

    `conduct` receives the sites and the terminal, to which nothing else prints. A `WardroundError` that it raises is
    printed on one line and ends the study. After any other error a supervisor may restart the process. Must be called
    in the main thread.
    """
    terminal = redirect_output(party.folder)
    interruption = Interruption(raises=True)
    try:
        with closing(open_connection(party, largest=largest)) as connection:
            federation = FlareFederation(
                connection, party.sites, study=party.study, signatures=signatures, deadline=deadline
            )
            conduct(federation, terminal)
            federation.announce_end()
        return DONE
    except WardroundError as error:
        print(f"{type(error).__name__}: {error}", file=terminal, flush=True)
        return REFUSED
    except KeyboardInterrupt:
        return interruption.code
    except Exception as error:
        # The text is withheld: it might quote what a site sent.
        frame = traceback.extract_tb(error.__traceback__)[-1]
        _log.error("the study broke off: %s at %s:%d", type(error).__name__, Path(frame.filename).name, frame.lineno)
        return FAULT
