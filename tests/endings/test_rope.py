"""A rope is the text of its pieces, whatever they share."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from structgen.endings.rope import EMPTY, Rope

PIECES = st.binary(max_size=80)
RECIPES = st.recursive(
    PIECES, lambda inner: st.tuples(inner, inner) | st.tuples(inner, st.integers(0, 5)), max_leaves=12
)


def built(recipe: object) -> tuple[Rope, bytes]:
    """A rope and its text: a piece, two ropes one after the other, or a rope so many times."""
    if isinstance(recipe, bytes):
        return Rope(recipe), recipe
    left, right = recipe  # type: ignore[misc]
    rope, text = built(left)
    if isinstance(right, int):
        return rope * right, text * right
    other, more = built(right)
    return rope + other, text + more


@given(RECIPES, st.integers(0, 300), st.binary(max_size=3))
def test_a_rope_is_its_text(recipe: object, count: int, known: bytes) -> None:
    rope, text = built(recipe)
    assert (rope.size, rope.read(), rope.first(count)) == (len(text), text, text[:count])
    assert (rope.after(count).size, rope.after(count).read()) == (len(text[count:]), text[count:])
    assert rope.outside(known) == bool(text.translate(None, known))


def test_a_rope_of_more_bytes_than_memory_is_read_where_it_is_asked() -> None:
    rope = Rope(b"ab") * 10**30 + Rope(b"c" * 100)
    assert (rope.size, rope.first(5), rope.after(2 * 10**30 - 1).read()) == (
        2 * 10**30 + 100,
        b"ababa",
        b"b" + b"c" * 100,
    )
    assert rope.outside(b"ab")
    assert not rope.outside(b"abc")


def test_long_chains_of_pieces_need_no_recursion() -> None:
    forward = backward = EMPTY
    piece = Rope(b"x" * 65)
    for _ in range(20_000):
        forward, backward = forward + piece, piece + backward
    for rope in (forward, backward):
        assert rope.first(130) == b"x" * 130
        assert rope.after(65 * 19_999).read() == b"x" * 65
        assert not rope.outside(b"x")
