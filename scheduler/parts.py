"""What the services of one node share."""

import threading
from dataclasses import dataclass, field

from .clock import Clock
from .definitions import Definitions
from .hand import Hand
from .identity import Identity
from .listeners import Teller
from .store.database import Store


@dataclass(frozen=True, slots=True)
class Parts:
    """One node's store, clock, identity, hand and knowledge; each service is made of these."""

    store: Store
    clock: Clock
    who: Identity
    hand: Hand
    definitions: Definitions
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set when the process must leave at once: waits end."""
    teller: Teller = field(default_factory=Teller)
    """Who listens to what this node does hears of it here, behind the commit."""

    def pause(self, seconds: float) -> None:
        """Wait, unless the process is leaving."""
        self.clock.wait(self.stopping, seconds)
