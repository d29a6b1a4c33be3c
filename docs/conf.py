"""The documents and the API as pages: `tox -e docs`, where every warning is an error."""

import importlib.metadata

project = "breakeven"
release = importlib.metadata.version("breakeven")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]

html_theme = "furo"
html_title = "breakeven"
html_copy_source = False
html_show_copyright = False
html_theme_options = {"announcement": '<a href="../index.html">The leaderboard</a>'}

default_role = "py:obj"  # what stands in single backticks is a name; one that is not in these pages is shown as it is
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_use_ivar = True
myst_heading_anchors = 3


def setup(app):
    app.connect("autodoc-process-docstring", _keep_bars)


def _keep_bars(app, what, name, obj, options, lines):
    """Docstrings write absolute values and norms as |x|, which reStructuredText takes for a substitution."""
    for place, line in enumerate(lines):
        parts = line.split("``")  # between every second pair of these is code, which is shown as it is
        parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
        lines[place] = "``".join(parts)
