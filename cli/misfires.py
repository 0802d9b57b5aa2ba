"""`qsched misfires`: slots that were noticed too late, and what became of them."""

from .tree import Leaf, Tree

misfires = Tree(
    "misfires",
    {
        "list": Leaf(
            "firing_list:list_misfires", "Misfires, newest first: due, noticed, late, why, decided by, what."
        )
    },
    help="Slots that were noticed too late, and what became of them.",
)
