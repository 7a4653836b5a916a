#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check that rattler-build accepts recipe.yaml, and that it agrees with pyproject.toml.

    pip install py-rattler-build
    python .ci/conda/check.py             # in seconds
    python .ci/conda/check.py --build     # also build a package of the checkout, in minutes

The script downloads nothing. The build uses the running interpreter with its setuptools,
Cython and NumPy, and the compiler of the machine.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import rattler_build

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# The platforms, compilers and Python versions of conda-forge.
PLATFORMS = ("linux-64", "linux-aarch64", "osx-64", "osx-arm64", "win-64", "win-arm64")
COMPILERS = {"linux": "gcc", "osx": "clang", "win": "vs2022"}
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def main() -> int:
    """Check the recipe. Return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--build", action="store_true", help="also build a package")
    arguments = parser.parse_args()
    recipe = rattler_build.Stage0Recipe.from_file(HERE / "recipe.yaml")
    for platform in PLATFORMS:
        found = rendered(recipe, platform)
        assert len(found) == len(PYTHONS), platform
        assert all(len(one.recipe.requirements.build) >= 2 for one in found)
        print(f"{platform}: Python {', '.join(PYTHONS)}")
    compare(recipe.to_dict())
    print("recipe.yaml: agrees with pyproject.toml")
    if arguments.build:
        build(recipe.to_dict())
    return 0


def rendered(recipe: Any, platform: str) -> list[Any]:
    """Return the recipe for each version of Python."""
    variants = {
        "python": [f"{version}.* *_cpython" for version in PYTHONS],
        "c_compiler": [COMPILERS[platform.partition("-")[0]]],
        "c_stdlib": ["sysroot"],
    }
    config = rattler_build.RenderConfig(
        platform=rattler_build.PlatformConfig(target_platform=platform)
    )
    return list(recipe.render(rattler_build.VariantConfig(variants), config))


def compare(recipe: dict[str, Any]) -> None:
    """Compare the recipe with pyproject.toml."""
    said = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    project, requirements = said["project"], recipe["requirements"]
    extras = [one for rows in project["optional-dependencies"].values() for one in rows]
    version = re.search('"(.+)"', (ROOT / "pyquant/_version.py").read_text("utf-8"))
    assert version is not None
    pairs = {
        "version": (recipe["context"]["version"], version[1]),
        "name": (recipe["package"]["name"], project["name"]),
        "summary": (recipe["about"]["summary"], project["description"]),
        "license": (recipe["about"]["license"], project["license"]),
        "license files": (recipe["about"]["license_file"], project["license-files"]),
        "homepage": (recipe["about"]["homepage"], project["urls"]["Homepage"]),
        "Python": (
            recipe["build"]["skip"],
            [f'match(python, "<{project["requires-python"].removeprefix(">=")}")'],
        ),
        "run": (compact(requirements["run"]), {"python", *project["dependencies"]}),
        "optional": (compact(requirements["run_constraints"]) - {*extras}, set()),
    }
    # conda-forge chooses the version of NumPy for a build.
    needed = {re.sub("^(numpy).*", r"\1", one) for one in said["build-system"]["requires"]}
    pairs["build"] = (compact(requirements["host"]), {"python", "pip", *needed})
    for what, (here, there) in pairs.items():
        assert here == there, (what, here, there)


def compact(requirements: list[str]) -> set[str]:
    """Return requirements without spaces, as pyproject.toml writes requirements."""
    return {one.replace(" ", "") for one in requirements}


def build(recipe: dict[str, Any]) -> None:
    """Build a package of the checkout by the recipe's script, and run its tests."""
    (line,) = recipe["build"]["script"]["content"]
    own = f"{sys.executable} -m pip --disable-pip-version-check"
    line = line.replace("${{ PYTHON }} -m pip", own)
    line = line.replace("-vv", "--no-cache-dir --prefix=$PREFIX")
    made = {
        "package": {
            "name": recipe["package"]["name"],
            "version": recipe["context"]["version"],
        },
        "source": {"path": str(ROOT)},
        "build": {"script": line},
        "about": {
            "license": recipe["about"]["license"],
            "license_file": recipe["about"]["license_file"],
        },
    }
    contents = next(one for one in recipe["tests"] if "package_contents" in one)
    with tempfile.TemporaryDirectory() as folder:
        recipe = rattler_build.Stage0Recipe.from_dict(made)
        built = recipe.run_build(output_dir=folder, channels=[])
        package = rattler_build.Package.from_file(built[0].packages[0])
        files = {str(path) for path in package.files}
    for wanted in contents["package_contents"]["site_packages"]["exists"]:
        assert any(path.endswith(f"site-packages/{wanted}") for path in files), wanted
    assert any(re.search(r"_core\..*(so|pyd)$", path) for path in files)
    assert any(re.search(r"bin/pyquant$", path) for path in files)
    print(f"{package.name} {package.version}: {len(files)} files")


if __name__ == "__main__":
    sys.exit(main())
