"""Templates and the style sheet, beside each other."""

from pathlib import Path

FOLDER = Path(__file__).parent
