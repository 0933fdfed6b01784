"""Texts that may be far longer than memory: pieces that other texts share, written out only as far as somebody reads.

The shortest value of forty nested pairs has 2 ** 40 bytes, and 41 pieces (Boehm, Atkinson and Plass 1995).
"""

from __future__ import annotations

from collections.abc import Iterator

JOINED = 64
"""Pieces of together at most this many bytes become one."""


class Rope:
    """A text, which is never changed.

    Attributes:
        size: the number of its bytes.
    """

    __slots__ = ("_flat", "_left", "_right", "size")
    _left: Rope  # a rope is a flat text, or two ropes
    _right: Rope

    def __init__(self, flat: bytes) -> None:
        self.size, self._flat = len(flat), flat

    def __add__(self, other: Rope) -> Rope:
        if not other.size:
            return self
        if not self.size:
            return other
        size = self.size + other.size
        if size <= JOINED:
            return Rope(self._flat + other._flat)
        whole = Rope.__new__(Rope)
        whole.size, whole._flat, whole._left, whole._right = size, b"", self, other
        return whole

    def __mul__(self, count: int) -> Rope:
        """The text `count` times, in some `log2(count)` pieces."""
        doubled, whole = self, EMPTY
        while count:
            whole = doubled + whole if count & 1 else whole
            doubled, count = doubled + doubled, count >> 1
        return whole

    def _pieces(self) -> Iterator[bytes]:
        """Its pieces, from the first to the last."""
        left = [self]
        while left:
            rope = left.pop()
            while not rope._flat and rope.size:
                left.append(rope._right)
                rope = rope._left
            yield rope._flat

    def first(self, count: int) -> bytes:
        """Its first `count` bytes; all if it has fewer."""
        flat = self._flat or (self._left._flat if self.size else b"")
        if flat and (len(flat) >= count or len(flat) == self.size):
            return flat[:count]
        taken = bytearray()
        for piece in self._pieces():
            taken += piece
            if len(taken) >= count:
                break
        return bytes(taken[:count])

    def after(self, count: int) -> Rope:
        """The text without its first `count` bytes."""
        rope, behind = self, EMPTY
        while not rope._flat and rope.size:
            if count < rope._left.size:
                rope, behind = rope._left, rope._right + behind
            else:
                rope, count = rope._right, count - rope._left.size
        return Rope(rope._flat[count:]) + behind

    def read(self) -> bytes:
        """The whole text. The caller knows that its size fits into memory."""
        return self.first(self.size)

    def outside(self, known: bytes) -> bool:
        """Does it have bytes that are not among the known ones?"""
        seen, left = set[int](), [self]
        while left:
            rope = left.pop()
            if id(rope) in seen:
                continue
            seen.add(id(rope))
            if rope._flat.translate(None, known):
                return True
            left += [rope._left, rope._right] if rope.size and not rope._flat else []
        return False


EMPTY = Rope(b"")
