"""Quote the texts of tenants in messages of several lines, so that none looks like a line of ours.

Messages and metadata quote commits, annotations and files of tenants. After a line break, such a
text must not look like a fact from the controller, such as the signer of a verified signature.
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
