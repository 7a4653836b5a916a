# SPDX-License-Identifier: Apache-2.0
"""
Search the built site in Chromium, and look for known pages in the first three results.

Usage: search.py SITE
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

EXPECTED = {
    "GGUF": "howto/gguf.html",
    "zero point": "glossary.html#zero-point",
    "off by one": "howto/match-pytorch.html#codes-that-are-off-by-one",
    "lossless": "semantics/formats.html#lossless-conversions",
    "quantize": "api/names/pyquant.quantize.html",
}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SWITCHES = ("--no-sandbox", "--allow-file-access-from-files")


def main(site):
    browser_path = next(filter(None, map(shutil.which, BROWSERS)))
    address = Path(site, "search.html").resolve().as_uri()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=SWITCHES)
        page = browser.new_page()
        for query, expected in EXPECTED.items():
            page.goto(f"{address}?q={query}")
            page.wait_for_selector("#search-results li:nth-child(3)")
            links = [
                one.get_attribute("href")
                for one in page.locator("#search-results li a").all()
            ]
            if expected not in links[:3]:
                sys.exit(
                    f"{query}: expected {expected} in the first three, got {links[:3]}"
                )
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
