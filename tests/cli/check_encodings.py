#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Text in many encodings, for every reader of text: it is read as its UTF-8 is, or the message names the conversion.

Usage: check_encodings.py UNROLL
"""
import itertools
import subprocess
import tempfile

from command import UNROLL, Result, call, chosen, ok, run_checks
from small_runs import KINDS, SMALL

FILES = {"language-model": "text.txt", "forecast": "series.csv", "classify": "patterns.csv", "regress": "waves.csv",
         "label": "tokens.tsv", "translate": "pairs.tsv", "summarize": "reports.tsv", "document": "documents.tsv"}
TABLES = ["forecast", "classify", "regress"]


def joined(text):
    """Two files with a byte order mark each, one behind the other; the second one begins after an empty line if there
    is one."""
    at = text.find("\n\n", len(text) // 2) + 2
    at = at if at > 1 else text.index("\n", len(text) // 2) + 1
    return ("\ufeff" + text[:at] + "\ufeff" + text[at:]).encode()


def joined_behind_an_empty_one(text):
    """The same behind a file that has nothing but its mark."""
    return b"\xef\xbb\xbf" + joined(text)


# A name, letters of the language, bytes of a text, and what the message names; None: it is read.
ENCODINGS = [
    ("UTF-8", "é", lambda t: t.encode(), None),
    ("UTF-8 with a mark", "é", lambda t: t.encode("utf-8-sig"), None),
    ("joined files with marks", "é", joined, None),
    ("joined files with marks, one of them empty", "é", joined_behind_an_empty_one, None),
    ("CR LF", "é", lambda t: t.replace("\n", "\r\n").encode(), None),
    ("UTF-16", "é", lambda t: b"\xff\xfe" + t.encode("utf-16-le"), "iconv -f UTF-16 "),
    ("UTF-16, high byte first", "é", lambda t: b"\xfe\xff" + t.encode("utf-16-be"), "iconv -f UTF-16 "),
    ("UTF-16LE without a mark", "é", lambda t: t.encode("utf-16-le"), "iconv -f UTF-16LE"),
    ("UTF-16BE without a mark", "é", lambda t: t.encode("utf-16-be"), "iconv -f UTF-16BE"),
    ("UTF-32", "é", lambda t: b"\xff\xfe\0\0" + t.encode("utf-32-le"), "iconv -f UTF-32 "),
    ("UTF-32LE without a mark", "é", lambda t: t.encode("utf-32-le"), "iconv -f UTF-32LE"),
    ("UTF-32BE without a mark", "é", lambda t: t.encode("utf-32-be"), "iconv -f UTF-32BE"),
    ("Latin-1", "é", lambda t: t.encode("latin-1"), "iconv -f LATIN1"),
    ("Windows-1252", "n’t", lambda t: t.encode("cp1252"), "iconv -f WINDOWS-1252"),
    ("Shift-JIS", "日本語です", lambda t: t.encode("shift_jis"), "iconv -f SHIFT_JIS"),
    ("GB18030", "中文", lambda t: t.encode("gb18030"), "iconv -f ENCODING"),
    ("Windows-1251", "слово", lambda t: t.encode("cp1251"), "iconv -f ENCODING"),
    ("a NUL byte", "é", lambda t: t[:9].encode() + b"\0" + t[9:].encode(), "tr -d '\\000'"),
    ("CR", "é", lambda t: t.replace("\n", "\r").encode(), "tr '\\r' '\\n'"),
]
FAULTY = [row for row in ENCODINGS if row[3]]


def sample(folder, kind, letters):
    """The sample of `unroll new` with other letters: in texts, or in the names of columns."""
    text = (folder / kind / FILES[kind]).read_text()
    if kind not in TABLES:
        return text.replace("e", letters)
    if kind == "forecast":
        return text.replace("week", "w" + letters)
    header = ",".join(f"x{letters}{c}" for c in range(text.split("\n")[0].count(",") + 1))
    return header + "\n" + text


def samples(folder):
    for kind in KINDS:
        ok("new", kind, folder / kind)


def fed(data, *arguments):
    done = subprocess.run([UNROLL, *map(str, arguments)], input=data, capture_output=True, timeout=300)
    return Result(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def require_named(result, way, what, codes=(3,)):
    assert result.code in codes, (what, result.code, result.out[:300], result.err)
    said = " ".join((result.out.replace("\\\\", "\\") + result.err).split())  # JSON doubles backslashes
    assert " ".join(way.split()) in said, f"{what}: no {way!r} in {said[-700:]!r}"


def checked(folder):
    """data check: what is read has the figures of its UTF-8; the rest is an error that names the conversion"""
    samples(folder)
    path = folder / "data"
    for kind, (name, letters, encode, way) in chosen(itertools.product(KINDS, ENCODINGS)):
        text = sample(folder, kind, letters)
        path.write_bytes(encode(text))
        result = call("data", "check", folder / kind / "config.toml", "--set", f"data.path={path}", "--json")
        if way:
            require_named(result, way, (kind, name))
            continue
        if kind == "language-model" and name == "CR LF":
            continue  # a CR is a character of the text
        path.write_bytes(text.encode())
        plain = call("data", "check", folder / kind / "config.toml", "--set", f"data.path={path}", "--json")
        assert plain.code == result.code == 0, (kind, name, result.code, result.out)
        figures = {k: v for k, v in result.json()["figures"].items() if "bytes" not in k and "length" not in k}
        assert figures.items() <= plain.json()["figures"].items(), (kind, name, figures, plain.json()["figures"])


def trained(folder):
    """train: the data file, and a test set in a file of its own, are read or named"""
    samples(folder)
    path = folder / "data"
    keys = [("path", row) for row in FAULTY] + [("test", row) for row in FAULTY[::4]]
    for kind, (key, (name, letters, encode, way)) in chosen(itertools.product(KINDS, keys)):
        path.write_bytes(encode(sample(folder, kind, letters)))
        result = call("train", folder / kind / "config.toml", "--out", folder / "run", "--set", f"data.{key}={path}")
        require_named(result, way, (kind, key, name))
        assert not (folder / "run").exists(), (kind, name)


def predicted(folder):
    """predict: the file of every task is read or named; none gets an answer from bytes of another encoding"""
    samples(folder)
    path = folder / "new"
    for kind in KINDS:
        run = folder / f"{kind}-run"
        ok("train", folder / kind / "config.toml", "--out", run, "--max-updates", 1, *SMALL)
        text = sample(folder, kind, "e") if kind in TABLES else (folder / kind / FILES[kind]).read_text()
        if kind == "classify" or kind == "regress":
            text = text[text.index("\n") + 1:]
        lines = text.splitlines()[:80]
        if kind in ("label", "translate", "summarize"):
            lines = [line.split("\t")[0] + " e" for line in lines]  # of the numbers of translate none has an e
        for name, letters, encode, way in chosen(ENCODINGS):
            new = "\n".join(lines if kind in TABLES else [line.replace("e", letters) for line in lines]) + "\n"
            if kind in TABLES and name in ("Latin-1", "Windows-1252", "Shift-JIS", "GB18030", "Windows-1251"):
                continue  # numbers alone are the same in them
            path.write_bytes(encode(new))
            result = call("predict", run, "--input", path, "--json")
            if way:
                require_named(result, way, (kind, name))
                if name.startswith(("UTF", "CR")):
                    assert not result.out, (kind, name, result.out)
                continue
            path.write_bytes(new.encode())
            assert result.code == 0, (kind, name, result.err)
            assert result.out == ok("predict", run, "--input", path, "--json").out, (kind, name)


def lines_alone(folder):
    """predict: a line that is not UTF-8 has an empty answer and its reason, for every task on lines, and a blank line
    has an empty one"""
    samples(folder)
    for kind in ("label", "document", "translate", "summarize", "language-model"):
        run = folder / f"{kind}-run"
        ok("train", folder / kind / "config.toml", "--out", run, "--max-updates", 1, *SMALL)
        result = fed(b"one\ncaf\xe9\n  \ntwo\n", "predict", run, "--json")
        assert result.code == 3 and "not UTF-8 at byte 4" in " ".join(result.err.split()), (kind, result.err)
        assert "1 empty line" in result.err, (kind, result.err)
        answers = result.out.splitlines()
        assert len(answers) == 4 and '"error"' in answers[1] and '"error"' not in answers[2], (kind, answers)
        blank = fed(b"\n", "predict", run, "--json").out.splitlines()
        assert answers[2] == blank[0], (kind, answers[2], blank)


def numbers(folder):
    """stream and run folders of numbers: another encoding is named before a number is read from it"""
    samples(folder)
    run = folder / "run"
    ok("train", folder / "forecast/config.toml", "--out", run, "--max-updates", 1, *SMALL)
    text = "".join(f"{i}.5\n" for i in range(9))
    for name, letters, encode, way in ENCODINGS:
        if name in ("Latin-1", "Windows-1252", "Shift-JIS", "GB18030", "Windows-1251"):
            continue  # numbers alone are the same in them
        result = fed(encode(text), "stream", run)
        if way and name != "a NUL byte":
            require_named(result, way, name)
            assert not result.out, (name, result.out)
        elif way:
            assert result.code == 3, (name, result.err)
        else:
            assert result.code == 0 and result.out == fed(text.encode(), "stream", run).out, (name, result.err)


def prompts(folder):
    """generate: a prompt that is not UTF-8 is refused with the byte, whatever the tokens are"""
    ok("new", "language-model", folder / "demo")
    for tokens in ("characters", "words", "bpe"):
        run = folder / tokens
        ok("train", folder / "demo/config.toml", "--out", run, "--max-updates", 1, *SMALL, "--set",
           f"data.tokens={tokens}", "--set", "data.vocabulary=300")
        result = fed(b"", "generate", run, "--prompt", b"caf\xe9".decode(errors="surrogateescape"))
        assert result.code == 2 and "is not UTF-8 at byte 4" in " ".join(result.err.split()), (tokens, result.err)
        assert not result.out, (tokens, result.out)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work:
        run_checks([checked, trained, predicted, lines_alone, numbers, prompts], work)
