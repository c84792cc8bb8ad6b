"""Matrices as pictures: cheap for the browser, and legible in light and dark."""

import base64
import io

import numpy as np
from PIL import Image

from circuits.charts.colours import QK


def tint(values: np.ndarray, colour: str = QK, negative: str | None = None, top: float | None = None) -> np.ndarray:
    """Return a matrix as RGBA: one colour whose opacity is the value, so that zero is the page itself.

    With ``negative`` set, values below zero take that colour.  For pictures (``st.image``) in both themes.
    """
    values = np.asarray(values, dtype=float)
    top = top or float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
    rgba = np.zeros((*values.shape, 4), dtype=np.uint8)
    rgba[..., :3] = _rgb(colour)
    if negative:
        rgba[values < 0, :3] = _rgb(negative)
    rgba[..., 3] = (np.clip(np.nan_to_num(np.abs(values)) / top, 0, 1) * 255).round()
    return rgba


def _rgb(colour: str) -> tuple[int, int, int]:
    return tuple(bytes.fromhex(colour[1:]))


def png(pixels: np.ndarray, size: int | None = None) -> str:
    """Return an RGBA array as a PNG data address, enlarged without smoothing to at least ``size`` pixels."""
    image = Image.fromarray(pixels, "RGBA")
    if size:
        factor = max(1, -(-size // max(image.size)))
        image = image.resize((image.width * factor, image.height * factor), Image.Resampling.NEAREST)
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
