# SPDX-License-Identifier: Apache-2.0
"""Build the site from these pages and from the docstrings of the installed package."""

import posixpath
import re

from docutils import nodes
from numpydoc.xref import DEFAULT_LINKS
from sphinx import addnodes
from sphinx.util.nodes import make_refnode

import pyquant  # the installed package: the source folder raises an ImportError

project = "pyquant"
SOURCE = "https://github.com/pyquant-simd/pyquant-simd"
version = release = pyquant.__version__
extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc", "sphinx_copybutton"]
exclude_patterns = ["_build", "_templates", "tables"]  # pages show the tables
templates_path = ["_templates"]
highlight_language = "none"
myst_heading_anchors = 4  # give headings the anchors of code hosts

# Every name that a page or a docstring links must exist. In docstrings, `name` is the name
# of an object or of a parameter.
nitpicky = True
default_role = "autolink"

autodoc_member_order = "bysource"
autodoc_mock_imports = ["zarr"]  # zarr needs Python 3.12.
autodoc_typehints = "none"  # Docstrings contain the types.
autosummary_ignore_module_all = False  # Sphinx writes a page for each name of __all__.
maximum_signature_line_length = 80  # Longer signatures have a line for each parameter.
numpydoc_show_class_members = False

# Types of parameters link to pages of this site, and not to pages of Python or NumPy.
CLASSES = ("ErrorReport", "Layout", "Observer", "PackedArray", "QParams", "RoundMode")
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"
numpydoc_xref_aliases = {
    **{name: name for name in DEFAULT_LINKS},
    **{name: f"pyquant.{name}" for name in CLASSES},
    "array_like": ":doc:`array_like </api/conventions>`",
    "dtype_like": ":doc:`dtype_like </api/dtypes>`",
}

html_theme = "furo"
pygments_dark_style = "github-dark"  # the default style underlines imports
html_title = f"{project} {release}"
html_show_copyright = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [("search.js", {"defer": "defer"})]
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
    """Let links to files that are not pages lead to the repository."""

    def shown(link):
        text, target = link.groups()
        path = posixpath.normpath(
            posixpath.join("docs", posixpath.dirname(docname), target)
        )
        is_page = re.match("docs/(?!tables/)", path)
        return link[0] if is_page else f"[{text}]({SOURCE}/blob/main/{path})"

    source[0] = re.sub(r"\[([^\]]+)\]\(([^)#:]+)\)", shown, source[0])


def link_parameters(app, doctree):
    """Give each parameter of a function an anchor, and link its name to the anchor."""
    for call in reversed([*doctree.findall(addnodes.desc)]):  # link methods first
        ids, content = call[0].get("ids"), call[-1]
        if not ids or call.get("objtype") not in ("function", "method", "class"):
            continue
        anchors = {}
        for term in parameters(content):
            for name in re.findall(r"\w+", term.next_node(nodes.strong).astext()):
                anchors[name] = f"{ids[0]}.{name}"
                term["ids"].append(anchors[name])
        names = [*call[0].findall(addnodes.desc_sig_name)]
        names += [*content.findall(nodes.emphasis), *content.findall(addnodes.pending_xref)]
        for name in names:
            if name.astext() in anchors:
                link = nodes.reference("", "", internal=True, refid=anchors[name.astext()])
                name.replace_self(link)
                link += name.children if isinstance(name, addnodes.pending_xref) else name


def parameters(content):
    """Yield the terms of the parameters that a docstring lists."""
    for part in content.children:  # skip the parts of methods
        for field in part.children if isinstance(part, nodes.field_list) else ():
            if field[0].astext() in ("Parameters", "Other Parameters"):
                yield from field.findall(nodes.term)


def link_names(app, doctree, docname):
    """Link `pyquant.name`, and classes and their methods, to their pages."""
    objects = app.env.domains["py"].objects
    public = [name for name in objects if "._" not in name]
    classes = {
        name.rpartition(".")[2]: name for name in public if objects[name].objtype == "class"
    }
    for span in [*doctree.findall(nodes.literal)]:
        first, dot, rest = re.sub(r"^pq\.", "pyquant.", span.astext()).partition(".")
        is_name = dot or first in classes  # `pyquant` is also a command
        found = is_name and objects.get(classes.get(first, first) + dot + rest)
        is_link = isinstance(span.parent, nodes.reference)
        if found and found.docname != docname and not is_link:
            place = app.builder, docname, found.docname, found.node_id
            span.replace_self(make_refnode(*place, span.deepcopy()))


def index_glossary(app, doctree):
    """Give each term of the glossary an anchor, and an entry of the index for searches."""
    is_glossary = app.env.current_document.docname == "glossary"
    for row in doctree.findall(nodes.row) if is_glossary else ():
        term = row[0].astext()
        row[0]["ids"].append(nodes.make_id(term))
        row[0] += addnodes.index(entries=[("single", term, row[0]["ids"][0], "main", None)])


def hide_edit_link(app, pagename, templatename, context, doctree):
    """Remove the links to the sources of generated pages, which the repository lacks."""
    if "/names/" in pagename:
        context["page_source_suffix"] = ""


def setup(app):
    """Called by Sphinx."""
    app.connect("source-read", name_files)
    app.connect("doctree-read", link_parameters)
    app.connect("doctree-read", index_glossary)
    app.connect("doctree-resolved", link_names)
    app.connect("html-page-context", hide_edit_link)
