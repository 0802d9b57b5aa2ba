"""A stored trigger ready for decisions, or why it is not: wrong for everybody, or only beyond this node."""

import json
from dataclasses import dataclass, replace

from ..triggers.errors import TriggerError, ZoneError
from ..triggers.jitter import run_time
from ..triggers.schedule import Schedule
from ..triggers.trigger import SPEC_VERSION, TriggerDefinition
from .store.definition_reads import TriggerRow


class Poison(Exception):
    """A definition that no node can read: the trigger goes to `error` at once."""


class Undecidable(Exception):
    """This node cannot decide the trigger; another may."""


@dataclass(frozen=True, slots=True)
class CompiledTrigger:
    """A trigger ready for decisions."""

    id: int
    hash: int
    key: str
    definition: TriggerDefinition
    """Shared by all triggers with this spec: it bears nobody's name, so ask `key` for that."""
    schedule: Schedule

    def run_time(self, slot: int) -> int:
        """When the slot may run: with its jitter."""
        jitter = self.definition.jitter
        return slot if jitter is None else run_time(self.key, slot, jitter, self.schedule)


def read_definition(row: TriggerRow) -> tuple[TriggerDefinition, Schedule]:
    """A stored definition and its schedule; raises Poison or Undecidable."""
    if row.spec_version > SPEC_VERSION:
        raise Undecidable(
            f"its definition has format {row.spec_version}, and this node knows {SPEC_VERSION}: update qsched"
        )
    try:
        definition = TriggerDefinition.from_spec(row.group_name, row.name, json.loads(row.spec))
        return replace(definition, group="", name=""), definition.compile()
    except ZoneError as error:  # this node's zone data may be older than another's
        raise Undecidable(str(error)) from error
    except (TriggerError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise Poison(f"its definition cannot be read: {error}") from error
    except Exception as error:
        raise Undecidable(f"{type(error).__name__}: {error}") from error


def hashes_its_key(definition: TriggerDefinition) -> bool:
    """Whether its schedule may depend on the trigger's key: a splay, an `H` field (or a word with an H, which costs only
    time)."""
    return definition.splay is not None or "H" in str(definition.schedule).upper()
