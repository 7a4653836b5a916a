# SPDX-License-Identifier: Apache-2.0
"""The site: these pages, and the docstrings of the installed package."""

import posixpath
import re

import pyquant  # the compiled one; in the source folder this fails and says why

project = "pyquant"
SOURCE = "https://github.com/pyquant-simd/pyquant-simd"
version = release = pyquant.__version__
extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc", "sphinx_copybutton"]
exclude_patterns = ["_build"]
highlight_language = "none"
myst_heading_anchors = 4  # as code hosts make them

# Every name that a page or a docstring links must exist. In docstrings `name` is a link
# where there is such an object, and emphasis where it is a parameter.
nitpicky = True
default_role = "autolink"
nitpick_ignore = [("py:obj", "packed"), ("py:obj", "rounding")]  # modules, too

autodoc_member_order = "bysource"
autodoc_mock_imports = ["zarr"]  # which not every Python has
autodoc_typehints = "none"  # the docstrings say them
numpydoc_show_class_members = False

html_theme = "furo"
html_title = f"{project} {release}"
html_show_copyright = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_logo = html_favicon = "_static/logo.svg"
html_theme_options = {
    "source_repository": f"{SOURCE}/",
    "source_branch": "main",
    "source_directory": "docs/",
}
myst_html_meta = {
    "description": "Quantize and dequantize NumPy arrays exactly, at the speed of memory."
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def name_files(app, docname, source):
    """Link files outside of this folder, which the site lacks, in the repository."""

    def shown(link):
        text, target = link.groups()
        path = posixpath.normpath(posixpath.join(posixpath.dirname(docname), target))
        return (
            f"[{text}]({SOURCE}/blob/main/{path[3:]})"
            if path.startswith("../")
            else link[0]
        )

    source[0] = re.sub(r"\[([^\]]+)\]\(([^)#:]+)\)", shown, source[0])


def setup(app):
    """Called by Sphinx."""
    app.connect("source-read", name_files)
