"""Check the contents of a release against the files that git tracks, and their sizes.

python .ci/dists.py FOLDER             check the source distributions and wheels of a folder
python .ci/dists.py FOLDER --release   also expect one source distribution and all wheels
"""

import re
import sys
import tarfile
import zipfile
from itertools import product
from pathlib import Path

from prose import tracked

LIMITS = {"compiled": 3.0, "packed": 1.5, "installed": 4.5}  # megabytes of a wheel

# These lists must agree with [tool.cibuildwheel] in pyproject.toml.
INTERPRETERS = ("cp311", "cp312", "cp313", "cp314", "cp314t", "cp315", "cp315t")
PLATFORMS = (
    *("manylinux x86_64", "manylinux aarch64", "musllinux x86_64", "musllinux aarch64"),
    *("macosx x86_64", "macosx arm64", "win amd64", "win arm64"),
)

# Tracked files that the source distribution leaves out.
CHECKOUT = re.compile(r"\.|benchmarks/")
EGG_INFO = ("PKG-INFO", "SOURCES.txt", "dependency_links.txt", "requires.txt")
EGG_INFO += ("top_level.txt", "entry_points.txt")
GENERATED = {"PKG-INFO", "setup.cfg"} | {f"pyquant_simd.egg-info/{n}" for n in EGG_INFO}
# Sources of the compiled module. Wheels leave them out.
COMPILED = re.compile(r"pyquant/_cython/.+")
LICENSES = {"licenses/LICENSE", "licenses/NOTICE"}
DIST_INFO = {"METADATA", "RECORD", "WHEEL", "top_level.txt", "entry_points.txt"} | LICENSES
MODULE = re.compile(r"pyquant/_core\.[\w-]+\.(so|pyd)")


def difference(found, expected):
    """Return a message for each missing file and for each unexpected file."""
    return [
        *(f"lacks {name}" for name in sorted(expected - found)),
        *(f"has {name}" for name in sorted(found - expected)),
    ]


def sdist_faults(path):
    """Return a message for each fault of a source distribution."""
    with tarfile.open(path) as archive:
        files = [m.name.partition("/")[2] for m in archive.getmembers() if not m.isdir()]
    expected = {name for name in tracked() if not CHECKOUT.match(name)}
    return difference(set(files), expected | GENERATED)


def wheel_faults(path):
    """Return a message for each fault of a wheel."""
    with zipfile.ZipFile(path) as archive:
        files = {i.filename: i.file_size for i in archive.infolist() if not i.is_dir()}
    info = "-".join(path.name.split("-")[:2]) + ".dist-info"
    expected = {f"{info}/{name}" for name in DIST_INFO}
    expected |= {"pyquant/include/pq.h", "pyquant/include/pyquant.h"}
    files_of_package = {n for n in tracked() if n.startswith("pyquant/")}
    expected |= {n for n in files_of_package if not COMPILED.fullmatch(n)}
    modules = [name for name in files if MODULE.fullmatch(name)]
    faults = difference(set(files) - set(modules), expected)
    if len(modules) != 1:
        faults.append(f"has {len(modules)} compiled modules, not one")
    sizes = {
        "compiled": sum(files[name] for name in modules) / 1e6,
        "packed": path.stat().st_size / 1e6,
        "installed": sum(files.values()) / 1e6,
    }
    print(f"{path.name} in MB:", *(f"{size:.2f} {kind}," for kind, size in sizes.items()))
    faults += [
        f"takes {sizes[kind]:.2f} MB {kind}, more than {limit}"
        for kind, limit in LIMITS.items()
        if sizes[kind] > limit
    ]
    return faults


def target(path):
    """Return the interpreter of a wheel and its platform without a version."""
    _, _, _, abi, tags = path.stem.split("-")
    found = re.fullmatch(r"([a-z]+).*?_(x86_64|aarch64|arm64|amd64)", tags)
    return abi, f"{found[1]} {found[2]}" if found else tags


def main(folder, release=None):
    """Print the faults, and return the exit status."""
    sdists = sorted(Path(folder).glob("*.tar.gz"))
    wheels = sorted(Path(folder).glob("*.whl"))
    faults = [f"{p.name}: {fault}" for p in sdists for fault in sdist_faults(p)]
    faults += [f"{p.name}: {fault}" for p in wheels for fault in wheel_faults(p)]
    if not sdists and not wheels:
        faults.append(f"{folder}: no source distribution and no wheel")
    if release:
        found = {target(path) for path in wheels}
        expected = set(product(INTERPRETERS, PLATFORMS))
        faults += [f"wheels: {line}" for line in difference(found, expected)]
        if (len(sdists), len(wheels)) != (1, len(expected)):
            faults.append(
                f"{len(sdists)} source distributions and {len(wheels)} wheels, not 1 and "
                f"{len(expected)}"
            )
    print(*faults, sep="\n", end="\n" if faults else "")
    print(f"{len(sdists)} sdist, {len(wheels)} wheels, {len(faults)} faults")
    return bool(faults)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--release"]):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
