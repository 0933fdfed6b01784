"""A model that says what a function makes of the text of its prompt, and small PDF and Word files for it to read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from torch import Tensor

import structgen as sg
from structgen.testing import ByteTokenizer, ScriptedModel, byte_vocabulary

BEFORE, MARK = "Text:\n", "\nJSON:\n"


class Reader(ScriptedModel):
    """Says what a function makes of what is between `BEFORE` and `MARK` in its prompt."""

    def __init__(self, answer: Callable[[str], str]) -> None:
        super().__init__("", byte_vocabulary(), max_position_embeddings=65_536)
        self.answer, self._numbers, self._said = answer, dict[str, int](), tuple[int, ...]()

    def _script_of(self, ids: Tensor, notes: Tensor) -> int:
        ids_ = ids.long().tolist()
        read = bytes(i for i in ids_ if i < 256)
        head, _, said = read.partition(MARK.encode())
        self._said = tuple(ids_[len(ids_) - len(said) - sum(i >= 256 for i in ids_) :])
        prompt = head.decode().partition(BEFORE)[2]
        if prompt not in self._numbers:
            self._numbers[prompt] = len(self.wanted)
            self.wanted.append(self.answer(prompt).encode())
        return self._numbers[prompt]

    def _scores(self, row: int, said: tuple[int, ...]) -> Tensor:
        return super()._scores(row, self._said)


def reader(answer: Callable[[str], str]) -> sg.Model:
    return sg.Model(Reader(answer), ByteTokenizer(), byte_vocabulary())


def write_pdf(path: Path, pages: Sequence[Sequence[tuple[float, float, str]]], rules: Sequence[str] = ()) -> None:
    """A PDF of 400 by 600 points.

    Args:
        pages: of each, texts with the left end and the height of their base lines, from the page's lower left corner;
            a text that begins with `*` is bold.
        rules: of each page, what is drawn, in the operators of PDF.
    """
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b""]
    fonts = b"/Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> "
    fonts += b"/F2 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold >> >>"
    for number, texts in enumerate(pages):
        drawn = rules[number] if number < len(rules) else ""
        for x, y, text in texts:
            shown = text.removeprefix("*").replace("(", r"\(").replace(")", r"\)")
            drawn += f"\nBT /F{1 + (text[0] == '*')} 10 Tf {x} {y} Td ({shown}) Tj ET"
        data, place = drawn.encode("latin-1"), len(objects) + 1
        objects += [
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 400 600] /Resources << %s >> /Contents %d 0 R >>"
            % (fonts, place + 1),
            b"<< /Length %d >>\nstream\n%s\nendstream" % (len(data), data),
        ]
    kids = b" ".join(b"%d 0 R" % place for place in range(3, len(objects) + 1, 2))
    objects[1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(pages))
    written, offsets = b"%PDF-1.4\n", list[int]()
    for number, each in enumerate(objects, 1):
        offsets.append(len(written))
        written += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    end = b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(written))
    path.write_bytes(written + b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, table) + end)
