"""`qsched triggers`: when jobs run."""

from .tree import Leaf, Tree

triggers = Tree(
    "triggers",
    {
        "list": Leaf("trigger_list:list_triggers", "All triggers: state, next and last fire, misfires."),
        "show": Leaf(
            "trigger_show:show_trigger", "One trigger: its schedule in words, next fires, last firings."
        ),
        "next": Leaf("trigger_show:next_fires", "When a trigger will fire next."),
        "explain": Leaf("trigger_explain:explain", "Why a trigger ran, or did not run, at an instant."),
        "pause": Leaf("trigger_changes:pause", "Stop triggers; when this returns, nothing of them starts."),
        "resume": Leaf("trigger_changes:resume", "Let paused triggers go on from now."),
        "fire": Leaf("trigger_changes:fire", "Start a trigger's job now, beside its schedule."),
        "backfill": Leaf("trigger_backfill:backfill", "Run slots of a trigger that have passed."),
        "reset": Leaf(
            "trigger_changes:reset", "Clear a trigger's error and start its schedule anew from now."
        ),
        "delete": Leaf("trigger_changes:delete", "Retire triggers; their history is kept."),
    },
    help="When jobs run.",
)
