#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Runs `unroll train` by Open MPI on two and four hosts: network namespaces with an address each on one bridge, so that
# messages go by TCP. Cuts the link of one host in mid-training: the others name its rank and end with exit code 8, and
# the run goes on with another number of hosts. By hand, as root; removes what it has set up.
# usage: check_network.py UNROLL [--hosts N...] [--cuts N]
import argparse
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

import check_mpi as mpi

BRIDGE, NETWORK, LINK = "unrollbr", "10.77.0", "lan"
CUT_TIMEOUT = 5  # run.rank_timeout
# Stands for ssh: AGENT HOST COMMAND... runs the command in the namespace of the host, under a host name of its own.
AGENT = """#!/bin/sh
host=${1##*.}
shift
export TMPDIR=%s/tmp$host
mkdir -p $TMPDIR
exec ip netns exec unroll$host unshare --uts sh -c "hostname node$host; $*"
"""


def ip(*words, strict=True):
    subprocess.run(["ip", *words], check=strict, stderr=None if strict else subprocess.DEVNULL)


def set_up(n):
    """The launcher is on host 0, ranks are on hosts 1 to n."""
    ip("link", "add", BRIDGE, "type", "bridge")
    ip("link", "set", BRIDGE, "up")
    for host in range(n + 1):
        name = f"unroll{100 + host}"
        ip("netns", "add", name)
        ip("link", "add", f"{BRIDGE}{host}", "type", "veth", "peer", "name", LINK, "netns", name)
        ip("link", "set", f"{BRIDGE}{host}", "master", BRIDGE, "up")
        ip("-n", name, "address", "add", f"{NETWORK}.{100 + host}/24", "dev", LINK)
        ip("-n", name, "link", "set", LINK, "up")
        ip("-n", name, "link", "set", "lo", "up")


def take_down(n):
    for host in range(n + 1):
        found = subprocess.run(["ip", "netns", "pids", f"unroll{100 + host}"], capture_output=True, text=True)
        if found.stdout:
            subprocess.run(["kill", "-9", *found.stdout.split()], stderr=subprocess.DEVNULL)
        ip("link", "del", f"{BRIDGE}{host}", strict=False)  # else it outlives the namespace by seconds
        ip("netns", "del", f"unroll{100 + host}", strict=False)
    ip("link", "del", BRIDGE, strict=False)


def launcher_on(a, ranks):
    agent = a.work / "agent"
    agent.write_text(AGENT % a.work)
    agent.chmod(0o755)
    settings = {"plm_rsh_agent": agent, "plm_rsh_no_tree_spawn": 1, "btl": "tcp,self", "pml": "ob1",
                "btl_tcp_if_include": LINK, "oob_tcp_if_include": LINK, "oob_tcp_keepalive_time": 2,
                "oob_tcp_keepalive_intvl": 1, "oob_tcp_keepalive_probes": 3}
    line = ["ip", "netns", "exec", "unroll100", "mpirun.openmpi", "--bind-to", "none", "--host",
            ",".join(f"{NETWORK}.{100 + host}:1" for host in range(1, ranks + 1))]
    for name, value in settings.items():
        line += ["--mca", name, str(value)]
    mpi.LAUNCHERS["network"] = line


def cut(a, hosts, folder):
    """Cuts a random link. How long the others took to end."""
    launcher_on(a, hosts)
    goes_on = (folder / "last.safetensors").exists()
    job = mpi.Job(a, "network", hosts, "train", a.config, "--out", folder, *(["--resume"] if goes_on else []))
    before = (folder / "last.safetensors").stat().st_mtime if goes_on else 0
    while job.process.poll() is None and not ((folder / "last.safetensors").exists() and
                                              (folder / "last.safetensors").stat().st_mtime > before):
        time.sleep(0.02)
    time.sleep(a.random.uniform(0, 0.5))
    victim = a.random.randrange(hosts)
    start = time.monotonic()
    ip("-n", f"unroll{101 + victim}", "link", "set", LINK, "down")
    codes = job.end()
    seconds = time.monotonic() - start
    ip("-n", f"unroll{101 + victim}", "link", "set", LINK, "up")
    kinds = mpi.verify(f"{hosts} hosts", job, victim, codes, trained=True)  # it has written a checkpoint
    print(f"{hosts} hosts: link of rank {victim} cut, ended after {seconds:.1f} s; the others: {', '.join(kinds)}; "
          f"rank {victim} itself: {codes[victim]}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("unroll", type=lambda path: str(pathlib.Path(path).resolve()))
    parser.add_argument("--hosts", type=int, nargs="*", default=[2, 4])
    parser.add_argument("--cuts", type=int, default=3)
    parser.add_argument("--updates", type=int, default=1000)
    a = parser.parse_args()
    if not shutil.which("mpirun.openmpi") or not shutil.which("ip"):
        print("skipped: needs mpirun.openmpi and ip")
        sys.exit(77)
    a.random = random.Random()
    with tempfile.TemporaryDirectory() as work:
        a.work = pathlib.Path(work)
        mpi.write_config(a, timeout=CUT_TIMEOUT)
        alone = mpi.alone(a, a.config)
        most = max(a.hosts)
        try:
            set_up(most)
            for hosts in a.hosts:
                folder = a.work / f"{hosts} hosts"
                for _ in range(a.cuts):
                    cut(a, hosts, folder)
                other = most if hosts != most else min(a.hosts)
                launcher_on(a, other)
                job = mpi.Job(a, "network", other, "train", a.config, "--out", folder, "--resume")
                mpi.check(job.end(300) == [0] * other, f"resume on {other} hosts:\n{job.text}")
                mpi.check(mpi.contents(folder) == alone, f"{hosts}, then {other} hosts: the files differ from one's")
        finally:
            take_down(most)
    print("failed" if mpi.failures else "passed")
    sys.exit(mpi.failures > 0)


if __name__ == "__main__":
    main()
