#!/usr/bin/env python3
"""An OCI runtime that has no more than the specification's command line: create, start, state, kill and delete.

It writes interface files of cgroup v2 alone, knows no systemd, no --root, no --version, no features and no update, and
says so in its help. Runs with the machine's Python as root; for tests of what memqos makes of a runtime like this.
"""

import argparse
import ctypes
import json
import os
import shutil
import signal
import sys
import time

RECORDS = "/run/minimal-runtime"
NAMESPACES = {"pid": 0x20000000, "ipc": 0x08000000, "uts": 0x04000000, "mount": 0x00020000, "cgroup": 0x02000000}
FLAGS = {"ro": 1, "nosuid": 2, "nodev": 4, "noexec": 8, "relatime": 1 << 21, "strictatime": 1 << 24}
BIND, RECURSIVE, PRIVATE, REMOUNT = 4096, 16384, 1 << 18, 32
LIBC = ctypes.CDLL(None, use_errno=True)


def must(result):
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def mount(source, target, kind, flags, data=""):
    must(LIBC.mount(source.encode(), target.encode(), kind.encode(), flags, data.encode()))


def write(place, text):
    with open(place, "w") as file:
        file.write(text)


def amount(value):
    return "max" if value < 0 else str(value)


def files_of(resources):
    """The interface files that linux.resources decides, in order."""
    memory, cpu = resources.get("memory", {}), resources.get("cpu", {})
    if limit := memory.get("limit"):
        yield "memory.max", amount(limit)
        if both := memory.get("swap"):
            yield "memory.swap.max", "max" if both < 0 else str(both - limit)
    if reservation := memory.get("reservation"):
        yield "memory.low", amount(reservation)
    if shares := cpu.get("shares"):
        yield "cpu.weight", str(1 + (shares - 2) * 9999 // 262142)
    if cpu.get("quota") or cpu.get("period"):
        yield "cpu.max", f"{amount(cpu.get('quota') or -1)} {cpu.get('period') or 100000}"
    for name in ("cpus", "mems"):
        if text := cpu.get(name):
            yield f"cpuset.{name}", text
    for one in resources.get("hugepageLimits", []):
        yield f"hugetlb.{one['pageSize']}.max", str(one["limit"])
    yield from resources.get("unified", {}).items()


def made_cgroup(config):
    folder = "/sys/fs/cgroup"
    for part in config["linux"]["cgroupsPath"].strip("/").split("/"):
        for controller in ("memory", "cpu", "cpuset", "pids", "io", "hugetlb"):
            try:
                write(f"{folder}/cgroup.subtree_control", f"+{controller}")
            except OSError:
                pass
        folder = f"{folder}/{part}"
        os.makedirs(folder, exist_ok=True)
    for name, text in files_of(config["linux"].get("resources", {})):
        write(f"{folder}/{name}", text)
    return folder


def enter(config, bundle):
    """The first process of the container, up to the point where it waits for `start`."""
    root = os.path.join(bundle, config["root"]["path"])
    mount("none", "/", "", RECURSIVE | PRIVATE)
    for one in config["mounts"]:
        target = root + one["destination"]
        flags = sum(FLAGS.get(option, 0) for option in one.get("options", []))
        data = ",".join(option for option in one.get("options", []) if "=" in option)
        if one["type"] == "bind" and os.path.isfile(one["source"]):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            write(target, "")
        else:
            os.makedirs(target, exist_ok=True)
        if one["type"] == "bind":
            mount(one["source"], target, "", BIND | RECURSIVE)
        elif one["type"] == "cgroup":
            mount("cgroup2", target, "cgroup2", flags)
        else:
            mount(one["source"], target, one["type"], flags, data)
    os.chroot(root)
    os.chdir(config["process"].get("cwd", "/"))


def create(args):
    with open(f"{args.bundle}/config.json") as file:
        config = json.load(file)
    records = f"{RECORDS}/{args.id}"
    os.makedirs(records)
    os.mkfifo(f"{records}/start")
    cgroup = made_cgroup(config)
    ready, told = os.pipe()
    if os.fork():
        os.close(told)
        with os.fdopen(ready) as answer:
            said = answer.read()
        if not said.isdecimal():
            raise RuntimeError(said or "the container's process ended")
        write(f"{records}/state.json", json.dumps({"pid": int(said), "bundle": args.bundle, "cgroup": cgroup}))
        write(args.pid_file, said)
        return
    os.close(ready)
    try:
        write(f"{cgroup}/cgroup.procs", str(os.getpid()))
        start = os.open(f"{records}/start", os.O_RDWR)
        asked = [one["type"] for one in config["linux"]["namespaces"]]
        must(LIBC.unshare(sum(NAMESPACES.get(name, 0) for name in asked)))
        write("/proc/self/oom_score_adj", str(config["process"].get("oomScoreAdj", 0)))
        pid = os.fork()
        if pid:
            os.write(told, str(pid).encode())
            os._exit(0)
        os.setsid()
        enter(config, args.bundle)
        os.close(told)
        os.read(start, 1)
        os.close(start)
        process = config["process"]
        os.execve(process["args"][0], process["args"], dict(one.split("=", 1) for one in process["env"]))
    except Exception as error:
        os.write(told, f"error: {error}".encode())
        os._exit(1)


def record(args):
    with open(f"{RECORDS}/{args.id}/state.json") as file:
        return json.load(file)


def start(args):
    with open(f"{RECORDS}/{args.id}/start", "w") as fifo:
        fifo.write("1")
    os.unlink(f"{RECORDS}/{args.id}/start")


def status_of(args, known):
    try:
        with open(f"/proc/{known['pid']}/stat") as file:
            if file.read().rpartition(")")[2].split()[0] in "ZX":
                return "stopped"
    except OSError:
        return "stopped"
    return "created" if os.path.exists(f"{RECORDS}/{args.id}/start") else "running"


def state(args):
    known = record(args)
    told = {"ociVersion": "1.0.2", "id": args.id, "status": status_of(args, known), "pid": known["pid"]}
    print(json.dumps({**told, "bundle": known["bundle"]}))


def kill(args):
    word = args.signal.removeprefix("SIG")
    os.kill(record(args)["pid"], int(word) if word.isdecimal() else getattr(signal, f"SIG{word}"))


def delete(args):
    known = record(args)
    if status_of(args, known) != "stopped":
        raise RuntimeError("the container is not stopped")
    for _ in range(50):
        try:
            os.rmdir(known["cgroup"])
            break
        except FileNotFoundError:
            break
        except OSError:
            time.sleep(0.1)
    shutil.rmtree(f"{RECORDS}/{args.id}")


def main():
    parser = argparse.ArgumentParser(prog="minimal")
    commands = parser.add_subparsers(required=True)
    for do in (create, start, state, kill, delete):
        command = commands.add_parser(do.__name__)
        command.set_defaults(do=do)
        if do is create:
            command.add_argument("--bundle", required=True)
            command.add_argument("--pid-file", required=True)
        command.add_argument("id")
        if do is kill:
            command.add_argument("signal", nargs="?", default="TERM")
    args = parser.parse_args()
    try:
        args.do(args)
    except Exception as error:
        sys.exit(f"minimal: {args.do.__name__}: {error}")


if __name__ == "__main__":
    main()
