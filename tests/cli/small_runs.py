# SPDX-License-Identifier: Apache-2.0
"""Small training runs for tests of the command."""
from command import ok

SMALL = ["--set", "model.hidden=8", "--set", "train.batch=4", "--set", "train.checkpoint_every=5", "--set",
         "train.validate_every=20", "--threads", "1"]
FILES = ["best.safetensors", "last.safetensors", "metrics.jsonl"]
KINDS = ["language-model", "forecast", "classify", "regress", "label", "translate", "summarize", "document"]


def config(folder, kind="classify", *settings):
    ok("new", kind, folder / "demo", *settings)
    return folder / "demo" / "config.toml"


def same_files(a, b):
    for name in FILES:
        assert (a / name).read_bytes() == (b / name).read_bytes(), f"{name} differs"
