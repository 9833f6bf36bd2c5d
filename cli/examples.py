"""The example at the end of a command's help."""


def example(*lines: str) -> str:
    """Return click's epilog of command lines, which it does not wrap."""
    return "\b\nExample:\n" + "\n".join(f"  {each}" for line in lines for each in line.split("\n"))
