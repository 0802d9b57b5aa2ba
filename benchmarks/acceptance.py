"""The acceptance run at full length, as a table: `PYTHONPATH=tests python benchmarks/acceptance.py [SECONDS] [STORE…]`.

Four node processes, then four forked workers, on each store: twenty one-second triggers for 60 s, judged by a ledger
outside of qsched's tables, by a query over the firings, and against an independent list of slots.
"""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from support.acceptance import Result, forked_workers, four_nodes, run_for, write_yaml
from support.nodes import Nodes
from support.servers import mariadb_server, postgres_server

STORES = ("sqlite", "postgresql", "mariadb")
HEAD = (
    f"{'store':<11}{'nodes':<18}{'firings':>8}{'missing':>8}{'double':>7}{'early':>6}"
    f"{'p50':>8}{'p99':>8}{'max':>8}  share per node, rows (missing, double, other), exits, errors"
)


@contextmanager
def database(store: str, folder: Path) -> Iterator[str]:
    """An empty store."""
    if store == "sqlite":
        yield f"sqlite:///{folder / 'qsched.db'}"
    elif store == "postgresql":
        with postgres_server() as postgres:
            yield postgres.new_database()
    else:
        with mariadb_server() as mariadb:
            yield mariadb.new_database()


def line(store: str, kind: str, result: Result) -> str:
    judged = result.judgement
    late = "".join(f"{judged.late_at(quantile) * 1000:6.0f}ms" for quantile in (0.5, 0.99, 1.0))
    shares = " ".join(f"{share:.0%}" for share in judged.share.values())
    return (
        f"{store:<11}{kind:<18}{judged.firings:>8}{len(judged.missing):>8}{len(judged.double):>7}{judged.early:>6}{late}"
        f"  {shares}, ({result.rows_missing}, {result.rows_double}, {result.rows_other}), {result.exit_codes},"
        f" {len(result.troubles)}"
    )


def main(arguments: list[str]) -> None:
    seconds = next((int(word) for word in arguments if word.isdigit()), 60)
    stores = [word for word in arguments if word in STORES] or STORES
    print(HEAD)
    for store in stores:
        for kind in ("four nodes", "forked: inside", "forked: started"):
            with tempfile.TemporaryDirectory(prefix="qsched-acceptance-") as name:
                folder = Path(name)
                with database(store, folder) as url, Nodes(folder, url) as nodes:
                    file, keys = write_yaml(folder)
                    if kind == "four nodes":
                        four_nodes(nodes, file)
                    else:
                        forked_workers(nodes, file, kind.rpartition(" ")[2])
                    working = 5 if kind.endswith("started") else 4
                    result = run_for(nodes, keys, seconds, working)
                    print(line(store, kind, result), *result.troubles[:5], sep="\n  ", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
