"""What the exit status of a process means, as the name and the text of an error."""

import signal

_MEANINGS = {126: " (found, but not executable)", 127: " (command not found)"}


def failure_of_status(status: int, *, shell: bool = True) -> tuple[str, str]:
    """The error's type and what it says, for a status other than 0; −n stands for signal n.

    `shell`: 126 and 127 mean what they mean to a shell.
    """
    if status < 0:
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        return "KilledBySignal", f"ended by {name}"
    return "ExitCode", f"exit code {status}{_MEANINGS.get(status, '') if shell else ''}"
