"""Test the interface for extension modules: headers, build tools, capsule, examples."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT, program, run_python

import pyquant as pq
from pyquant import _core

EXAMPLES = ROOT / "examples"
HAVE_TOOLS = shutil.which("gcc") or shutil.which("clang") or shutil.which("cc")


PKG_CONFIG = ["env", f"PKG_CONFIG_PATH={pq.embed.get_cmake_dir()}"]
BUILDS = {  # the needed packages or programs, and the commands of each build
    "setuptools": (
        ["setuptools", "Cython"],
        [[sys.executable, "setup.py", "-q", "build_ext", "--build-lib", "../lib"]],
    ),
    "cmake": (
        ["cmake", "ninja"],
        [
            [
                *("cmake", "-GNinja", "-B../lib", f"-DPython_EXECUTABLE={sys.executable}"),
                f"-Dpyquant_DIR={pq.embed.get_cmake_dir()}",
            ],
            ["cmake", "--build", "../lib"],
        ],
    ),
    "meson": (
        ["mesonbuild", "ninja", "pkg-config"],
        [[*PKG_CONFIG, "meson", "setup", "../lib"], ["meson", "compile", "-C", "../lib"]],
    ),
}


def build(source, folder, tool="setuptools"):
    """Build the modules of an example in `folder`/lib. Return the path of `folder`/lib."""
    needed, commands = BUILDS[tool]
    for name in needed:
        if not importlib.util.find_spec(name) and not shutil.which(name):
            # skips the test without the tool; .ci/run installs all tools
            pytest.skip(f"{name} is not installed")
    if not HAVE_TOOLS:
        pytest.skip("no C compiler")
    copy = folder / "source"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    programs = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    for command in commands:
        done = subprocess.run(
            command,
            cwd=copy,
            env={**os.environ, "PATH": programs},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / "lib"


@pytest.fixture
def example():
    """Return a function that returns the folder of a named example. Skip the test without
    the examples."""
    if not EXAMPLES.is_dir():
        pytest.skip("the examples are not here")
    return lambda name: EXAMPLES / name


def test_headers():
    folder = Path(pq.embed.get_include())
    assert sorted(p.name for p in folder.iterdir()) == ["pq.h", "pyquant.h"]
    assert (Path(pq.__file__).parent / "__init__.pxd").is_file()


@pytest.mark.parametrize("editable", [False, True])
def test_headers_of_an_editable_install(tmp_path, editable):
    """get_include() returns a folder with the headers, also for an editable install, which
    has the headers only in csrc."""
    package, sources = tmp_path / "pyquant", tmp_path / "csrc"
    for folder in (sources,) if editable else (package / "include", sources):
        shutil.copytree(pq.embed.get_include(), folder)
    package.mkdir(exist_ok=True)
    embed = shutil.copytree(pq.embed.get_cmake_dir(), package / "embed")
    spec = importlib.util.spec_from_file_location("embed", embed / "__init__.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert Path(module.get_include()) == (sources if editable else package / "include")


def test_files_of_build_tools():
    """The command prints the folders for build tools, and the files for build tools state
    the version of pyquant."""
    folders = {
        "--include-dir": pq.embed.get_include(),
        "--cmake-dir": pq.embed.get_cmake_dir(),
    }
    for option, folder in folders.items():
        assert program(option).stdout == f"{folder}\n"
    text = (Path(pq.embed.get_cmake_dir()) / "pyquant.pc").read_text("utf-8")
    assert f"\nVersion: {pq.__version__}\n" in text


def test_capsule():
    assert type(_core.c_api).__name__ == "PyCapsule"
    assert '"pyquant._core.c_api"' in repr(_core.c_api)


def test_cython_and_the_documentation_have_all_of_the_table():
    header = (Path(pq.embed.get_include()) / "pq.h").read_text("utf-8")
    table = header[header.index("struct pq_api {") :]
    names = re.findall(r"\(\*(\w+)\)\(", table)
    assert len(names) > 25
    pxd = (Path(pq.__file__).parent / "__init__.pxd").read_text("utf-8")
    assert re.findall(r"\(\*(\w+)\)\(", pxd) == names
    for kind in ("struct", "enum"):
        made = re.findall(rf"^{kind} (\w+) \{{", header, flags=re.M)
        assert {f"    {kind} {name}:\n" for name in made} <= set(
            re.findall(r"    (?:struct|enum) \w+:\n", pxd)
        )
    page = (ROOT / "docs" / "c-interface.md").read_text("utf-8")
    listed = "".join(re.findall(r"^\| (`.*?) \| .* \| \d\.\d \|$", page, flags=re.M))
    assert re.findall(r"`(\w+)`", listed)
    assert set(re.findall(r"`(\w+)`", listed)) == set(names)


@pytest.mark.parametrize(
    ("name", "tool"),
    [("embed_c", tool) for tool in BUILDS] + [("embed_cython", "setuptools")],
)
def test_example(example, tmp_path, name, tool):
    lib = build(example(name), tmp_path, tool)
    code = (example(name) / "run.py").read_text("utf-8")
    done = run_python(f"import sys; sys.path.insert(0, {str(lib)!r})\n{code}")
    assert done.returncode == 0, done.stderr
    page = (ROOT / "docs" / "howto" / "embed.md").read_text("utf-8")
    assert done.stdout in page.replace("\n   ", "\n")


def test_code_of_the_page_is_in_the_examples(example):
    """Code on the page equals code of the examples. .ci/run compiles the program."""
    page = (ROOT / "docs" / "howto" / "embed.md").read_text("utf-8")
    first, *shown = re.findall(r"```(c|cython|cmake)\n(.*?)```", page, re.DOTALL)
    listing = (example("vendored") / "quantize.c").read_text("utf-8")
    # the page omits the first line, the license
    assert first == ("c", listing.partition("\n")[2])
    files = {"c": "embed_c.c", "cmake": "CMakeLists.txt", "cython": "embed_cython.pyx"}
    assert {kind for kind, _ in shown} == set(files)
    for kind, code in shown:
        folder = "embed_cython" if kind == "cython" else "embed_c"
        text = (example(folder) / files[kind]).read_text("utf-8")
        known = {line.strip() for line in text.splitlines()}
        for line in code.splitlines():
            assert line.strip() in {"", *known}


def test_the_table_by_cffi(example):
    """The example for cffi runs. It removes comments and directives from pq.h, because cffi
    cannot read them."""
    pytest.importorskip("cffi")  # skips the test without the package
    done = run_python((example("table_cffi") / "run.py").read_text("utf-8"))
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "table_cffi: 307200 elements quantized"
    assert second.startswith("refused: the number of dimensions")


@pytest.mark.parametrize("core", ["", "_core = None", "class _core: c_api = 3"])
def test_another_package_of_this_name_is_an_import_error(example, tmp_path, core):
    lib = build(example("embed_c"), tmp_path)
    (tmp_path / "pyquant.py").write_text(core, "utf-8")
    path = [str(tmp_path), str(lib)]
    done = run_python(f"import sys; sys.path[:0] = {path}; import embed_c")
    assert done.returncode == 1
    expected = "ImportError: pyquant: expected a package with a C interface"
    assert expected in done.stderr


def build_against(text, example, folder):
    """Build the example in C with `text` as pq.h. Return the folder of the built module."""
    headers = folder / "headers"
    shutil.copytree(pq.embed.get_include(), headers)
    (headers / "pq.h").write_text(text, "utf-8")
    other = folder / "other"
    shutil.copytree(example("embed_c"), other)
    setup = (other / "setup.py").read_text("utf-8")
    assert "pyquant.embed.get_include()" in setup
    setup = setup.replace("pyquant.embed.get_include()", repr(str(headers)))
    (other / "setup.py").write_text(setup, "utf-8")
    (folder / "build").mkdir()
    return build(other, folder / "build")


@pytest.mark.parametrize(
    ("name", "value"), [("PQ_API_MAJOR", 99), ("PQ_API_MAJOR", 0), ("PQ_API_MINOR", 99)]
)
def test_another_version_is_an_import_error(example, tmp_path, name, value):
    """The import of a module fails if its headers are of an incompatible version."""
    text = (Path(pq.embed.get_include()) / "pq.h").read_text("utf-8")
    version = dict(re.findall(r"#define PQ_API_(MAJOR|MINOR) (\d+)\n", text))
    line = next(s for s in text.splitlines() if s.startswith(f"#define {name} "))
    lib = build_against(text.replace(line, f"#define {name} {value}"), example, tmp_path)
    done = run_python(f"import sys; sys.path.insert(0, {str(lib)!r}); import embed_c")
    assert done.returncode == 1
    asked = {**version, name.removeprefix("PQ_API_"): value}
    for said in (
        "ImportError: pyquant: expected version {MAJOR}.{MINOR} of the C ".format(**asked),
        "got {MAJOR}.{MINOR} of pyquant {0}".format(pq.__version__, **version),
    ):
        assert said in done.stderr


def test_an_older_version_works(example, tmp_path):
    """A module works if it was built with a header of an older minor version."""
    text = (Path(pq.embed.get_include()) / "pq.h").read_text("utf-8")
    old, changed = re.subn(r"(#define PQ_API_MINOR) [1-9]\d*\n", r"\1 0\n", text)
    assert changed == 1
    lib = build_against(old, example, tmp_path)
    code = (example("embed_c") / "run.py").read_text("utf-8")
    done = run_python(f"import sys; sys.path.insert(0, {str(lib)!r})\n{code}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("embed_c: ")
