# SPDX-License-Identifier: Apache-2.0
"""Running the unroll command from a test: calls, safetensors files, terminals."""
import json
import os
import pathlib
import pty
import struct
import subprocess
import sys
import time

UNROLL = os.path.abspath(sys.argv[1])


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def messages(self):
        """Lines of stderr, each as it was before it was wrapped: a line that goes on begins with two spaces."""
        return self.err.replace("\n  ", " ").splitlines()

    def json(self):
        return json.loads(self.out)


def call(*arguments, cwd=None, **environment):
    done = subprocess.run([UNROLL, *map(str, arguments)], capture_output=True, text=True, errors="replace", timeout=300,
                          stdin=subprocess.DEVNULL, cwd=cwd, env=dict(os.environ, **environment))
    return Result(done.returncode, done.stdout, done.stderr)


def ok(*arguments, **environment):
    result = call(*arguments, **environment)
    assert result.code == 0, f"{arguments} gave {result.code}: {result.err}"
    return result


def refused(code, *arguments, says=()):
    """The call ends with `code` and its message holds every text of `says`."""
    result = call(*arguments)
    assert result.code == code, f"{arguments} gave {result.code}, not {code}: {result.err}"
    assert "\nunroll: error: " in "\n" + result.err, result.err  # progress may come before it
    for text in says:
        assert text in "\n".join(result.messages()), f"no {text!r} in {result.err!r}"
    return result


def on_terminal(*arguments, **environment):
    """The call with stderr on a pseudo-terminal: what the terminal got."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([UNROLL, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=theirs,
                               env={**os.environ, "TERM": "xterm", **environment})
    os.close(theirs)
    seen = b""
    try:
        while part := os.read(ours, 4096):
            seen += part
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert process.wait(timeout=60) == 0, seen
    return seen.decode()


def chosen(cases):
    """Every n-th case where UNROLL_CASES=n asks for a short run; all of them otherwise."""
    return list(cases)[::int(os.environ.get("UNROLL_CASES", "1"))]


def save(path, metadata=None, **tensors):
    """Each tensor is (dtype, shape, numbers); those of an F8 type are its bytes."""
    codes = {"F32": "f", "F64": "d", "I32": "i", "I64": "q", "I16": "h", "U16": "H", "I8": "b", "U8": "B", "U64": "Q",
             "BOOL": "?", "F8_E4M3": "B", "F8_E5M2": "B"}
    header, data = {"__metadata__": metadata} if metadata else {}, b""
    for name, (dtype, shape, numbers) in tensors.items():
        part = struct.pack(f"<{len(numbers)}{codes[dtype]}", *numbers)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)


def load(path):
    raw = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8:8 + size])
    header.pop("__metadata__", None)
    codes = {"F32": "f", "F64": "d", "I32": "i"}
    found = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        part = raw[8 + size + begin:8 + size + end]
        code = codes[entry["dtype"]]
        found[name] = list(struct.unpack(f"<{len(part) // struct.calcsize(code)}{code}", part))
    return found


def run_checks(checks, work):
    """Calls each check(folder) in a folder of its own; ends the program."""
    failed = 0
    for check in checks:
        folder = pathlib.Path(work) / check.__name__
        folder.mkdir()
        start = time.monotonic()
        try:
            check(folder)
            print(f"ok   {time.monotonic() - start:5.1f} s  {check.__doc__ or check.__name__}", flush=True)
        except Exception as error:  # every failure is reported, and counted
            failed += 1
            print("FAIL", check.__doc__ or check.__name__, "\n    ", type(error).__name__, error, flush=True)
    sys.exit(1 if failed else 0)
