"""Times as Kubernetes and Helm write them."""

from datetime import datetime


def moment(text: str) -> datetime | None:
    """Return a time of RFC 3339; None if the text is no time, or names no zone."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else None
