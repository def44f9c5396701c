"""Tests of the browser UI. Streamlit looks at all installed packages for each page that its tester
opens, which takes half a second; they do not change meanwhile, so it looks once."""

from functools import cache

from streamlit.components.v2 import manifest_scanner

manifest_scanner.scan_component_manifests = cache(manifest_scanner.scan_component_manifests)
