"""Tables show what people read: digests are short, names are not."""

from apiserver import cells

SHA = "0123456789abcdef0123456789abcdef01234567"


def test_hashes_are_cut_to_eight_digits_and_names_are_not() -> None:
    text = f"stored artifact for revision 'main@sha1:{SHA}' of deadbeef-cafe"

    assert cells.shorten(text) == (
        "stored artifact for revision 'main@sha1:01234567' of deadbeef-cafe"
    )


def test_what_is_not_there_is_an_empty_cell() -> None:
    assert cells.text("status", "message")({"status": None}) == ""
    assert cells.number("status", "objects")({}) == 0
