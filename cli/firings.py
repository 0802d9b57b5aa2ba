"""`qsched firings`: the ledger, one row per decision."""

from .tree import Leaf, Tree

firings = Tree(
    "firings",
    {
        "list": Leaf("firing_list:list_firings", "Firings, newest first; skipped slots are firings too."),
        "show": Leaf("firing_show:show_firing", "One firing with all its attempts."),
        "output": Leaf("firing_output:firing_output", "What a firing's newest attempt wrote."),
        "cancel": Leaf("firing_acts:cancel", "End what waits, and tell what runs to stop."),
        "retry": Leaf("firing_acts:retry", "Run what failed, was lost or cancelled once more."),
    },
    help="What ran, runs, will run, or was skipped.",
)
