"""`qsched jobs reset`: a job begins with nothing kept from its runs before."""

import click

from .render import answer
from .settings import Settings, whoami
from .tree import command


@command("reset")
@click.argument("job")
@click.pass_obj
def reset_job(settings: Settings, job: str) -> None:
    """Forget what a job keeps from run to run (ctx.saved); `jobs show` shows it. Not while it runs."""
    from ..scheduler.saved_data import forget_saved

    store = settings.writing()
    settings.confirm(f"Forget what job {job} keeps from run to run?")
    answer(f"{job} reset" if forget_saved(store, job, who=whoami()) else f"{job} kept nothing")
