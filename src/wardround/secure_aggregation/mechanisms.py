"""Mechanisms that protect updates: each declares who can read what, what it needs, and how to build its two ends.

`site review`, the report, the console and the checks of a study read these declarations, so that a mechanism is
described once. `MECHANISMS` in `privacy/mechanism_table.py` lists them. A further mechanism is one class and one line
there; it may wrap another one and delegate to its two ends. Nothing heavy is imported until a mechanism is built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from wardround.errors import MessageError, UsageError
from wardround.federation.aggregation import AggregationClient, AggregationServer, Reader
from wardround.federation.federation import SiteId
from wardround.federation.unit_privacy import NoisePlan

if TYPE_CHECKING:
    from wardround.secure_aggregation.client import SecretSource
    from wardround.secure_aggregation.codecs import Codec
    from wardround.secure_aggregation.exchange import Exchange
    from wardround.secure_aggregation.identities import Certifier, Identity
    from wardround.secure_aggregation.keys.material import PublicParameters
    from wardround.secure_aggregation.packing import SlotLayout
    from wardround.secure_aggregation.plain import PlainCodec

__all__ = [
    "AgreedMechanism",
    "ClientSetup",
    "Masked",
    "Mechanism",
    "Plain",
    "Sealed",
    "SealedMasked",
    "ServerSetup",
]


@dataclass(frozen=True)
class ServerSetup:
    """The parts that the coordinator's end is built from."""

    agree: Callable[[], AgreedMechanism]  # what both ends must agree on
    codec: Callable[[], PlainCodec]  # how readable updates are encoded
    parameters: Callable[[], PublicParameters] | None = None  # public facts of the sealing key
    certifier: Certifier | None = None  # checks the public keys of sites
    noise: NoisePlan | None = None  # under differential privacy


@dataclass(frozen=True)
class ClientSetup:
    """The parts that a site's end is built from."""

    agree: Callable[[], AgreedMechanism]
    codec: Callable[[], PlainCodec]
    folder: Path  # where the site keeps its permanent record
    identity: Callable[[], Identity]
    secrets: SecretSource | None = None  # sealing keys
    certifier: Certifier | None = None
    clips: Mapping[str, float] | None = None  # by layer group; a missing one is learned
    error_feedback: bool = False  # add what rounding took from an update to the next one
    largest_share: float = 1.0  # of one site in a mean
    durable: bool = False  # force records to disk before anything leaves
    noise: NoisePlan | None = None  # under differential privacy
    noise_secret: Callable[[], bytes] = bytes  # the secret from which the site draws its noise
    budget: float | None = None  # the site's own limit of ε, if it is stricter than the study's


class Mechanism:
    """A way to add updates, and what it reveals to whom."""

    name: str
    protects: bool = True  # whether single updates are hidden from the coordinator
    seals: bool = False  # updates are encrypted; only sites can open the sum
    masks: bool = False  # masks hide an update also from those who open the sum
    minimum_sites: int = 1  # fewest sites whose sum hides one of them
    packages: tuple[str, ...] = ()  # that must be installed
    extra: str = "sealed"  # of Wardround, which installs them
    # What differential privacy promises, for the report; and whether noise hides all that depends on training notes.
    budget: str = "none. No noise was added, so differential privacy guarantees nothing here."
    adds_noise: bool = False
    # Who can read an update, and predictions on a public set, in a sentence or two for `site review`.
    updates_readable_by: str
    predictions_readable_by: str
    # The same as one line for the console.
    summary: str
    predictions_summary: str
    # The same for a finished run, in the report.
    report: str
    # Who can read what, for the report's table; see `READERS` in the report.
    coordinator_reads_update: bool = False
    coordinator_reads_sum: bool = False
    coordinator_and_one_site_read_update: bool = False

    def check_installed(self) -> None:
        """Raise a `UsageError` if a package that this mechanism needs is missing."""
        for package in self.packages:
            if find_spec(package) is None:
                raise UsageError(f"[privacy] {self.name} needs {package}: install wardround[{self.extra}]")

    def steps(self, *, mean_comes_back: bool) -> tuple[str, ...]:
        """Return the steps of the phases after *announce* that a site answers.

        `mean_comes_back` is true for algorithms whose model stays at the coordinator.
        """
        submit = ("submit",) if self.protects else ()
        unmask = ("unmask",) if self.masks or (self.seals and mean_comes_back) else ()
        if not self.seals:
            return (*submit, *unmask)
        return (*submit, *unmask, *(("open_mean",) if mean_comes_back else ("open_sum", "share_copy", "load_copy")))

    def refusal(self, *, scheme: str, packing: str, mean_comes_back: bool, algorithm: str) -> str:
        """Return why this mechanism cannot run with these settings of [privacy]; empty if it can."""
        if not self.protects:
            return ""
        if scheme == "ckks" and not self.seals:
            return f"scheme belongs to a mechanism that encrypts; {self.name} does not"
        if scheme == "ckks" and mean_comes_back:
            return (
                "scheme ckks adds approximately, and an opened mean that is sent back would reveal the key; "
                f"{algorithm} needs bfv"
            )
        if scheme == "ckks" and self.masks:
            return f"scheme ckks adds approximately, and masks need exact sums; {self.name} needs bfv"
        if packing == "compact" and (not self.seals or scheme == "ckks"):
            return "packing compact belongs to bfv, in a mechanism that encrypts"
        return ""

    def server(self, setup: ServerSetup) -> AggregationServer:
        """Build the coordinator's end."""
        from wardround.secure_aggregation.server import SecureAggregationServer

        return SecureAggregationServer(setup.agree(), parameters=setup.parameters, certifier=setup.certifier)

    def client(self, setup: ClientSetup) -> AggregationClient:
        """Build a site's end."""
        from wardround.secure_aggregation.client import SecureAggregationClient
        from wardround.secure_aggregation.submission import Submission

        client = SecureAggregationClient(
            setup.agree(),
            setup.identity(),
            secrets=setup.secrets,
            certifier=setup.certifier,
            feedback=setup.error_feedback,
        )
        return Submission(
            client,
            setup.folder,
            clips=setup.clips or {},
            feedback=setup.error_feedback,
            durable=setup.durable,
            largest_share=setup.largest_share,
        )


class Plain(Mechanism):
    """No protection: the coordinator sees every update."""

    name = "plain"
    protects = False
    updates_readable_by = (
        "The coordinator can read each of your updates separately. Updates are not notes, but they are computed from "
        "notes: words, and with effort sentences, can be guessed from the gradient of a small batch."
    )
    predictions_readable_by = (
        "The coordinator can read what your model predicts on the public notes. It cannot read the model. However, a "
        "model that was trained on few notes predicts differently on text that it was trained on."
    )
    summary = "Nothing is sealed: the coordinator can read each site's update."
    predictions_summary = "Nothing is sealed: the coordinator can read each site's predictions on the public set."
    report = "The coordinator could read each update separately; only the connection protected them."
    coordinator_reads_update = True
    coordinator_reads_sum = True
    coordinator_and_one_site_read_update = True

    def server(self, setup: ServerSetup) -> AggregationServer:
        """Build the coordinator's end."""
        from wardround.secure_aggregation.plain import PlainServer

        return PlainServer(setup.codec())

    def client(self, setup: ClientSetup) -> AggregationClient:
        """Build a site's end."""
        from wardround.secure_aggregation.plain import PlainClient

        return PlainClient(setup.folder, setup.codec(), durable=setup.durable)


class Masked(Mechanism):
    """Pairwise masks: the coordinator sees the sum."""

    name = "masked"
    masks = True
    minimum_sites = 3
    packages = ("cryptography",)
    updates_readable_by = (
        "The coordinator can read the sum of a round's updates, but no single update: masks that the sites agree on "
        "hide them. It could compute your update from the sum only if all other sites of the round helped it."
    )
    predictions_readable_by = (
        "The coordinator can read the mean of the sites' predictions in a round, but not the predictions of a single "
        "site: masks that the sites agree on hide them."
    )
    summary = "The coordinator can read the sum of a round's updates, but no single update."
    predictions_summary = "The coordinator can read the mean of a round's predictions, but not those of a single site."
    report = (
        "Each update was hidden by masks that cancel in the sum: the coordinator could read the sum of a round, but no "
        "single update."
    )
    coordinator_reads_sum = True


class Sealed(Mechanism):
    """Homomorphic encryption: the coordinator sees nothing, the sites open the sum."""

    name = "sealed"
    seals = True
    minimum_sites = 2
    packages = ("cryptography", "tenseal")
    updates_readable_by = (
        "The coordinator adds ciphertexts and can read neither an update nor the sum. Every site holds the key that "
        "decrypts the sum: a site that works together with the coordinator could decrypt your update."
    )
    predictions_readable_by = (
        "The coordinator adds ciphertexts. The sites of a round decrypt the mean and send it to the coordinator. Every "
        "site holds the key: a site that works together with the coordinator could decrypt your predictions."
    )
    summary = "The coordinator adds ciphertexts and can read neither an update nor the sum; the sites decrypt the sum."
    predictions_summary = (
        "The coordinator adds ciphertexts; the sites decrypt the mean prediction and send it to the coordinator."
    )
    report = (
        "Updates were encrypted before they left their site: the coordinator added them and could read none of them, "
        "and only sites could decrypt the sum. Every site has the key: a site that worked together with the "
        "coordinator could read the update of another site."
    )
    coordinator_and_one_site_read_update = True


class SealedMasked(Sealed):
    """Masks inside ciphertexts: a site that colludes with the coordinator sees only the sum."""

    name = "sealed+masked"
    masks = True
    minimum_sites = 3
    updates_readable_by = (
        "The coordinator adds ciphertexts and can read neither an update nor the sum. The sites decrypt the sum, and "
        "masks hide your update in it: even a site that works together with the coordinator can read only the sum."
    )
    predictions_readable_by = (
        "The coordinator adds ciphertexts. The sites of a round decrypt the mean and send it to the coordinator. Masks "
        "hide your predictions in it, even from a site that works together with the coordinator."
    )
    summary = (
        "The coordinator adds ciphertexts and can read neither an update nor the sum; the sites decrypt the sum, and "
        "masks hide each update in it."
    )
    predictions_summary = (
        "The coordinator adds ciphertexts; the sites decrypt the mean prediction and send it to the coordinator, and "
        "masks hide each site's predictions in it."
    )
    report = (
        "Updates were masked and encrypted before they left their site: the coordinator added them and could read none "
        "of them, only sites could decrypt the sum, and nobody could read a single update, not even the coordinator "
        "together with one site."
    )
    coordinator_and_one_site_read_update = False


@dataclass(frozen=True)
class AgreedMechanism:
    """What both ends of a study agree on: how its updates are protected, and which arrays they consist of."""

    study: str  # its digest
    protection: Mechanism
    shapes: Mapping[str, tuple[int, ...]]  # of the shared parameters
    groups: Mapping[str, str]  # the layer group of each parameter
    sites: tuple[SiteId, ...]  # of the study
    minimum: int  # fewest sites in a sum
    scheme: Literal["bfv", "ckks"] = "bfv"
    packing: Literal["standard", "compact"] = "standard"
    clips: Mapping[str, float] = field(default_factory=dict)  # by layer group; a missing one is learned
    mean_comes_back: bool = False  # sites that opened the mean send it to the coordinator
    unit: float = 0.0  # updates are integers that stand for so many times this; 0 if they are real numbers

    @property
    def is_sealed(self) -> bool:
        """Return whether updates are encrypted, so that only sites can open their sum."""
        return self.protection.seals

    @property
    def is_masked(self) -> bool:
        """Return whether pairwise masks hide an update also from those that open the sum."""
        return self.protection.masks

    @property
    def needs_every_participant(self) -> bool:
        """Return whether each update also has a mask of its own site, whose seed is sent once, for a complete sum.

        Otherwise, if means come back, a coordinator could have two sums opened that differ in one site.
        """
        return self.is_masked or self.mean_comes_back

    @property
    def reader(self) -> Reader:
        """Return who reads the mean."""
        return Reader.SITE if self.is_sealed else Reader.COORDINATOR

    @property
    def key_scheme(self) -> str:
        """Return the encryption scheme that the sealing key must have; empty if nothing is sealed."""
        if not self.is_sealed:
            return ""
        return "ckks" if self.scheme == "ckks" else f"bfv-{self.packing}"

    @cached_property
    def codec(self) -> Codec:
        """Return how slots are encoded, added and opened."""
        from wardround.secure_aggregation.bfv import BfvParameters
        from wardround.secure_aggregation.codecs import BfvCodec, CkksCodec, PlaintextCodec

        if not self.is_sealed:
            return PlaintextCodec()
        return CkksCodec() if self.scheme == "ckks" else BfvCodec(BfvParameters(self.packing))

    @cached_property
    def layer_groups(self) -> tuple[str, ...]:
        """Return the layer groups without repeats, in the order of the layers."""
        return tuple(dict.fromkeys(self.groups[name] for name in self.shapes))

    def clip_of(self, exchange: Exchange) -> dict[str, float]:
        """Return the clip of each parameter in an exchange."""
        if exchange.clips.keys() != set(self.layer_groups):
            raise MessageError("clip", "the exchange names other layer groups than the study's model has")
        return {name: exchange.clips[self.groups[name]] for name in self.shapes}

    def layout(self, exchange: Exchange) -> SlotLayout:
        """Return the position of each number of an update in the slots of an exchange."""
        clips = self.clip_of(exchange)
        return self.codec.integer_layout(self.shapes, self.unit) if self.unit else self.codec.layout(self.shapes, clips)
