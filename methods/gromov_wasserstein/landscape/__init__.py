"""The energy landscape of a matching problem: its local minima, how often each is found, and which symmetry relates them.

    python -m breakeven.methods.gromov_wasserstein.landscape blobs points=200 --picture blobs.svg

prints them; `minima` is the same as a library, and `draw` makes the picture.
"""

from breakeven.methods.gromov_wasserstein.landscape.picture import draw
from breakeven.methods.gromov_wasserstein.landscape.search import Minimum, minima
from breakeven.methods.gromov_wasserstein.landscape.symmetry import Isometry, isometry, mirror_pairs

__all__ = ["Isometry", "Minimum", "draw", "isometry", "minima", "mirror_pairs"]
