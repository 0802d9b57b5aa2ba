"""`qsched firings`: the ledger, one row per decision."""

from .tree import Leaf, Tree

firings = Tree(
    "firings",
    {
        "list": Leaf("firing_list:list_firings", "Firings, newest first; skipped slots are firings too."),
        "show": Leaf("firing_show:show_firing", "One firing with all its attempts."),
        "output": Leaf("firing_output:firing_output", "What a firing's newest attempt wrote."),
    },
    help="What ran, runs, will run, or was skipped.",
)
