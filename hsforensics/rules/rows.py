"""The kinds of row that the rule book is made of, and the names of the config keys that engines read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

NESTED_IDS: Final = "eagle_config.eagle_aux_hidden_state_layer_ids"
TOP_LEVEL_IDS: Final = "eagle_aux_hidden_state_layer_ids"
AUX_SWITCH: Final = "eagle_config.use_aux_hidden_state"
AUX_COUNT: Final = "num_aux_hidden_states"
DFLASH_IDS: Final = "dflash_config.target_layer_ids"
TARGET_IDS: Final = "target_layer_ids"
DSPARK_IDS: Final = "dspark_target_layer_ids"
SPECULATORS_IDS: Final = "aux_hidden_state_layer_ids"

Method: TypeAlias = Literal["eagle3", "dflash", "dspark"]
"""The kind of drafter: each has its own hook in an engine, and its own keys."""

METHODS: Final[tuple[Method, ...]] = ("eagle3", "dflash", "dspark")

Verified: TypeAlias = Literal["verified live", "executed on stubs", "read from source", "unknown"]
"""How a row is known; ``executed on stubs`` says so of the rule, while capture positions were read from source."""


@dataclass(frozen=True)
class Engine:
    """An engine.

    Attributes:
        name: As in ``NAME==VERSION``.
        title: For prose.
        newest: The newest version that was looked at; ``None`` where releases were not told apart.
        rules_of: The engine whose classes and id rules it shares.
    """

    name: str
    title: str
    newest: str | None
    rules_of: str


@dataclass(frozen=True)
class ModelClass:
    """A target's model class in an engine; ``*`` stands for every class that has no row of its own.

    Attributes:
        family: Classes that share their rows of ``ID_RULES``.
        since: First version in which the class takes ids (or captures a default).
        delegates_to: For a wrapper, the inner class whose rule applies.
        until: First version in which the class is gone, or ``None``.
    """

    engine: str
    name: str
    family: str
    since: str
    delegates_to: str | None = None
    method: Method = "eagle3"
    until: str | None = None


@dataclass(frozen=True)
class Caveat:
    """A known trap of some versions.

    Attributes:
        harmless_at_default: It does not matter to the default wiring.
        by_hand: It matters only to who writes ids by hand: what this package writes heeds it.
    """

    text: str
    harmless_at_default: bool = False
    by_hand: bool = False


@dataclass(frozen=True)
class IdRule:
    """What ids mean to one family in a range of versions.

    Attributes:
        versions: PEP 440 specifiers, half open.
        rule: A key of ``hsforensics.rules.functions.RULES``.
        state_zero: Whether state 0, the embedding, can be captured. Where not, asking for it crashes the engine.
        source: Pull requests and files.
        verified: How it is known.
        default: A key of ``hsforensics.rules.functions.DEFAULTS``.
        last_state: Whether state L can be captured, and else what asking for it does.
        missing: What happens when fewer states arrive than ids were given: the rest is served, or the engine fails.
    """

    engine: str
    family: str
    versions: str
    rule: str
    state_zero: bool
    source: str
    verified: Verified
    default: str = "canonical"
    last_state: Literal["captured", "lost", "crashes"] = "lost"
    missing: Literal["dropped", "fails"] = "dropped"
    caveats: tuple[Caveat, ...] = ()
    method: Method = "eagle3"


@dataclass(frozen=True)
class ConfigReading:
    """Which keys of a drafter's config an engine reads, in a range of versions; dotted keys, ``None`` = none.

    Attributes:
        ids_key: Where it looks for layer ids first, and where they are best written.
        switch_key: The switch that turns aux states off altogether.
        count_key: The number of aux states that sizes ``fc``, read before the length of the ids.
        slots: The only number of aux states it can serve, or ``None`` for any.
        fallback_keys: Where it looks next, in order.
        argument: The launch argument that holds the ids instead, for engines that read none from the config.
        lenient: An empty list, or a value that is no list, counts as absent; other engines fail with it.
    """

    engine: str
    versions: str
    ids_key: str | None
    switch_key: str | None
    count_key: str | None
    slots: int | None
    source: str
    caveats: tuple[Caveat, ...] = ()
    method: Method = "eagle3"
    fallback_keys: tuple[str, ...] = ()
    argument: str | None = None
    lenient: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key that is read for ids, in order."""
        return tuple(key for key in (self.ids_key, *self.fallback_keys) if key is not None)


@dataclass(frozen=True)
class RunnerChoice:
    """Which model runner an engine takes by default: ``runner`` is the engine name whose readings apply.

    Attributes:
        classes: Model classes that take it; ``None`` for all.
    """

    engine: str
    versions: str
    classes: tuple[str, ...] | None
    runner: str
    source: str
    caveats: tuple[Caveat, ...] = ()
