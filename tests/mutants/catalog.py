"""The mutants: the rows of the specification's table by number, and what reviews of the protocol added (from 30 on).

Row 3 (a unique key dropped alone) changes nothing that can be seen, for the clock's compare-and-set stands before it: it
is removed together with that in 1b.
"""

from .mutant import Mutant, by_interleaving, by_sim, by_tests

_STORE = "tests/scheduler/store"
_CLUSTER = "tests/cluster"

MUTANTS = [
    Mutant("1", "fetch-without-lock-or-compare", [by_interleaving("take:take")]),
    Mutant("1b", "and-without-the-unique-key", [by_interleaving("take:take")]),
    Mutant("2", "due-rows-waited-for", [by_tests("tests/interleave/test_lock_footprint.py")]),
    Mutant("4", "settle-without-fence", [by_sim(), by_interleaving("settle:rescue")]),
    Mutant("5", "rescue-without-compare", [by_interleaving("settle:rescue"), by_sim()]),
    Mutant("6", "mark-dead-without-second-look", [by_interleaving("check-in:mark-silent")]),
    Mutant("7", "one-shot-rescue", [by_sim()]),
    Mutant("8", "rescue-passes-first-fence", [by_sim()]),
    Mutant("9a", "node-clock-for-leases", [by_sim()]),
    Mutant("9b", "node-clock-for-due", [by_sim()]),
    Mutant("10", "incarnation-used-again", [by_sim()]),
    Mutant("11", "take-without-node-check", [by_sim()]),
    Mutant("12", "fenced-node-tells-nobody", [by_tests(f"{_CLUSTER}/test_fencing.py")]),
    Mutant("13a", "due-taken-without-state-or-lock", [by_interleaving("retake:retake")]),
    Mutant("13b", "take-beyond-the-lease", [by_sim()]),
    Mutant("14", "in-doubt-taken-for-failed", [by_sim()]),
    Mutant("15", "end-not-written-again", [by_sim()]),
    Mutant("16", "no-reconciliation", [by_interleaving("reconcile:fire"), by_sim()]),
    Mutant("17", "lost-body-not-settled", [by_tests(f"{_CLUSTER}/test_fencing.py"), by_sim()]),
    Mutant("18", "no-self-fence", [by_sim()]),
    Mutant("19a", "rescue-keeps-the-permit", [by_sim()]),
    Mutant("19b", "no-permits-at-all", [by_sim()]),
    Mutant("20", "saved-data-of-a-fenced-writer", [by_sim(), by_tests(f"{_CLUSTER}/test_saved_data.py")]),
    Mutant("21a", "one-retry-more", [by_sim()]),
    Mutant("21b", "retry-without-delay", [by_sim()]),
    Mutant("22", "plan-without-epoch-or-compare", [by_interleaving("plan:plan")]),
    Mutant("23", "plan-without-epoch", [by_interleaving("plan:take-over"), by_sim()]),
    Mutant("24", "clock-moved-without-its-rows", [by_sim()]),
    Mutant("25", "in-doubt-read-without-locks", [by_tests(f"{_CLUSTER}/test_protocol_take.py")]),
    Mutant("26", "due-in-no-index-order", [by_tests("tests/interleave/test_lock_footprint.py")]),
    Mutant(
        "27",
        "no-idle-in-transaction-limit",
        [by_tests("tests/scheduler/store/test_losing_the_database.py", "-k", "stopped_node_cannot_keep")],
    ),
    Mutant("28", "error-without-rollback", [by_tests("tests/interleave/test_lock_footprint.py")]),
    Mutant("29a", "poison-spoils-the-batch", [by_tests(f"{_CLUSTER}/test_protocol_trouble.py")]),
    Mutant(
        "29b", "no-check-in-while-draining", [by_tests(f"{_CLUSTER}/test_drain.py", "-k", "check_ins_go_on")]
    ),
    Mutant("29c", "redis-client-repeats-by-itself", [by_tests(f"{_CLUSTER}/test_lease_redis.py")]),
    Mutant(
        "29d",
        "epoch-in-an-unlogged-table",
        [by_tests(f"{_CLUSTER}/test_supervision_servers.py", "-k", "away_for_a_while and postgres")],
    ),
    Mutant("30", "clock-moved-in-a-transaction-before", [by_sim()]),
    Mutant("31", "decided-outside-the-permits-lock", [by_interleaving("last-place:last-place")]),
    Mutant("32", "edit-leaves-the-watermark", [by_interleaving("take:edit"), by_sim()]),
    Mutant("33", "gone-at-first-sight", [by_sim()]),
    Mutant("34", "begun-body-released", [by_sim()]),
    Mutant("35", "group-limit-not-held", [by_sim(), by_tests(f"{_CLUSTER}/test_group_limits.py")]),
    Mutant("36", "a-fenced-end-is-followed", [by_sim(), by_tests(f"{_CLUSTER}/test_continuations.py")]),
    Mutant("37", "a-lost-run-is-no-end-for-a-delay", [by_tests(f"{_CLUSTER}/test_delay.py"), by_sim()]),
    Mutant("38", "a-delay-runs-beside-itself", [by_sim(), by_tests(f"{_CLUSTER}/test_delay.py")]),
]
