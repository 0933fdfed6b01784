"""Images that others send: a small file may have billions of pixels, or be broken in ways of its own."""

from __future__ import annotations

import io
from base64 import b64decode, b64encode
from typing import Any

FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
MAX_PIXELS = 40_000_000
EXPECTED = f"a {', '.join(FORMATS)} of at most {MAX_PIXELS:,} pixels"


def read_image(data: bytes, pixels: int = MAX_PIXELS) -> Any:
    """Returns an image of Pillow.

    Args:
        pixels: the most that it may have.

    Raises:
        ValueError: it is not `EXPECTED`. ImportError: Pillow is not installed.
    """
    from PIL import Image

    try:
        image = Image.open(io.BytesIO(data), formats=FORMATS)
        if image.width * image.height > pixels:
            raise ValueError(f"expected {EXPECTED}")
        image.load()
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"expected {EXPECTED}") from error
    return image


def data_url(image: Any) -> str:
    """Returns an image of Pillow as a URL that has it, as PNG."""
    file = io.BytesIO()
    image.save(file, "PNG")
    return f"data:image/png;base64,{b64encode(file.getvalue()).decode()}"


def of_data_url(url: str) -> Any:
    """Returns the image of Pillow in a data URL.

    Raises:
        ValueError: it is none with base64 of `EXPECTED`. ImportError: Pillow is not installed.
    """
    head, _, data = url.partition(",")
    if not head.endswith(";base64"):
        raise ValueError(f"expected a data URL with base64 of {EXPECTED}")
    return read_image(b64decode(data, validate=True)).convert("RGB")
