"""An exception as one line of text, for errors and logs."""


def one_line(error: BaseException) -> str:
    """An exception as one line of text that cannot fail."""
    kind = type(error).__name__
    try:
        text = " ".join(str(error).split())
    except BaseException:
        return f"{kind} (its text cannot be read)"
    if isinstance(error, ModuleNotFoundError):
        return f"{text}: is its folder on PYTHONPATH?"
    if isinstance(error, ImportError):
        return text[:500] or kind
    return f"{kind}: {text[:500]}" if text else f"{kind} was raised"
