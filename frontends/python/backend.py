# SPDX-License-Identifier: Apache-2.0
"""Build backend of the wheel. Meson's project is the root of the repository, while pyproject.toml stands beside the
module. So the build runs in a temporary root: links to the repository's parts and a copy of pyproject.toml."""
import contextlib
import os
import pathlib
import shutil
import tempfile

import mesonpy

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PARTS = ["meson.build", "meson_options.txt", "LICENSE", "core", "backends", "frontends", "tests", "bench", "docs"]


@contextlib.contextmanager
def temporary_root():
    before = os.getcwd()
    with tempfile.TemporaryDirectory(prefix="unroll-wheel-") as folder:
        for part in PARTS:
            os.symlink(ROOT / part, pathlib.Path(folder) / part)
        shutil.copy(HERE / "pyproject.toml", folder)
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    wheel_directory = os.path.abspath(wheel_directory)
    with temporary_root():
        return mesonpy.build_wheel(wheel_directory, config_settings, metadata_directory)


def get_requires_for_build_wheel(config_settings=None):
    with temporary_root():
        return mesonpy.get_requires_for_build_wheel(config_settings)
