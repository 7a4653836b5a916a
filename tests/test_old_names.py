"""Tests that no tracked file contains a name that the project has removed."""

import re
import subprocess

import pytest
from support import ROOT, case

# Removed public names, options and commands, and former names of functions of the C core.
# CHANGELOG.md lists the removed public names with their replacements.
OLD = r"""
gptq\.Weight awq\.Weight FourBit files\.Weight\b calibration_range choose_tensor_scale
mx\.choose_scale quantize_input dequantize_output cf\.params
pyquant\.(gptq|awq|mlx|mx|nvfp4|bitsandbytes|matmulnbits)\b
pyquant\.(zarr|dask|cf|tflite|sklearn)\b BlockFormat\.(decode|encode)\b packed="words"
ngraph\.RoundMode --resume pyquant\ verify pyquant\ bench\b pq_is_whole pq_is_wide
PQ_BLOCK_FORMATS pq_making pq_search_fn pq_check_search pq_go_around pq_take_codes
pq_visit_fn pq_cursor run_squares run_spaced PQ_SPACED PQ_SPREAD pq_empty_fn void_codes
patch_nans put_fills pq_is_noisy minmax_grp minmax_vec run_scaled_row look_ahead
ask_to_read ask_to_write wide\.inc pq_places struct\ hunt struct\ course struct\ way\b
struct\ ready are_ready suits_direct go_and_come out_whole asked_groups flush_from
"""
PATTERN = re.compile("|".join(OLD.replace("\\ ", "\0").split()).replace("\0", " "))
EXEMPT = ("CHANGELOG.md", "tests/test_old_names.py")


def test_old_names_are_gone():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True)
    if listed.returncode:
        pytest.skip("needs a checkout, like .ci/run, because Git lists the files")
    for name in set(listed.stdout.decode().split("\0")) - {"", *EXEMPT}:
        if not (ROOT / name).is_file():
            continue
        text = (ROOT / name).read_bytes().decode(errors="replace")
        with case(file=name):
            assert not PATTERN.search(text)
