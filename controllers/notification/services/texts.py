"""Texts of others in messages that consist of lines: none of them looks like a line of ours.

Messages and metadata quote what tenants write: commits, annotations, files. A line break in them
must not begin what readers take for a fact of the controller, such as whose signature was verified.
"""


def indented(text: str) -> str:
    """Return a text whose lines after the first are indented, for services without Markdown."""
    return "\n    ".join(text.splitlines())


def on_one_line(text: str) -> str:
    """Return a text as one line, for an entry of a list."""
    return " / ".join(text.splitlines())


def block(text: str) -> str:
    """Return a text for Markdown: several lines are a block in which no markup counts."""
    lines = text.splitlines()
    if len(lines) < 2:
        return text
    return "\n".join(["```", *(line.replace("```", "'''") for line in lines), "```"])
