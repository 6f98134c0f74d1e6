"""How every figure looks, and how it becomes the same bytes each time it is drawn."""

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

DPI = 150

# Okabe and Ito's palette: distinct under the common forms of colour blindness and in grey.
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, GREY, INK, RULE = "#E69F00", "#6B7280", "#1F2933", "#D5DAE1"

RC: Any = {
    "font.family": "DejaVu Sans",  # ships with matplotlib, so the bytes do not depend on the host
    "font.size": 10,
    "text.parse_math": False,  # a prompt category may hold a dollar sign
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": GREY,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.7,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "figure.facecolor": "white",
    "figure.dpi": DPI,
    "savefig.dpi": DPI,
}


@contextmanager
def styled() -> Iterator[None]:
    """Matplotlib's defaults plus `RC`, whatever the user's own matplotlibrc says."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(RC)
        yield


def new_figure(width: float, height: float, title: str, source: str) -> Figure:
    """An empty figure of `width` × `height` inches with a title and a line that says what it is."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(f"{title}\n", x=0.01, ha="left", fontsize=13, fontweight="bold")
    # Under the title, in the blank second line that the title reserves for it.
    figure.text(0.01, 1 - 0.42 / height, source, ha="left", va="center", fontsize=9.5, color=GREY)
    return figure


def legend_below(figure: Figure, axes: Axes, columns: int) -> None:
    """One legend under the panels, so that it never covers data."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns)


def png_bytes(figure: Figure) -> bytes:
    """PNG of the figure with no time, version or path in it."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    return buffer.getvalue()
