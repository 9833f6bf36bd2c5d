"""``python -m controlplane``: run an embedded control plane by hand.

Progress goes to standard error; standard output holds only what was asked for, so that
``eval "$(python -m controlplane env)"`` works.
"""

import argparse
import json
import os
import shlex
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from controlplane import binaries, instance, plane, status
from controlplane.binaries import Variant
from controlplane.errors import ControlPlaneError, InstanceRunningError
from controlplane.plane import ControlPlane

INTERRUPTED: Final = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    options = _parser().parse_args(arguments)
    # A plain SIGTERM would end us without the finally blocks.
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return int(options.run(options))
    except ControlPlaneError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


def _up(options: argparse.Namespace) -> int:
    if options.use_existing:
        os.environ[plane.EXISTING] = options.use_existing
    if options.until_eof:
        threading.Thread(target=_interrupt_at_eof, daemon=True).start()
    started = time.monotonic()
    try:
        with plane.obtain(
            options.name, variant=options.variant, report=_reporter(started)
        ) as running:
            _say(started, f"{running.name} is ready at {running.server}")
            return _hold(running, options)
    except InstanceRunningError:
        # A second `up --detach` finds what it asks for.
        if not options.detach:
            raise
        _print_access(plane.attach(options.name), output=options.output)
        return 0


def _hold(running: ControlPlane, options: argparse.Namespace) -> int:
    if running.supervision is None:
        _print_access(running, output=options.output)
        return 0
    if options.detach:
        running.detach()
        _print_access(running, output=options.output)
        return 0
    # An interrupt is how one ends it, and no failure, from the moment it is told how to reach us.
    with suppress(KeyboardInterrupt):
        _print_access(running, output=options.output)
        if not options.until_eof:
            print("Ctrl-C stops it", file=sys.stderr)
        running.wait()
    return 0


def _down(options: argparse.Namespace) -> int:
    for name in instance.names() if options.all else (options.name,):
        started = time.monotonic()
        if instance.stop(name):
            _say(started, f"{name} is stopped")
        else:
            print(f"{name} was not running", file=sys.stderr)
    return 0


def _load(options: argparse.Namespace) -> int:
    running = plane.attach(options.name)
    for archive in options.archives:
        print(running.load(archive), end="")
    return 0


def _status(options: argparse.Namespace) -> int:
    rows = status.gather()
    if options.output == "json":
        print(json.dumps(status.as_json(rows), indent=2))
    else:
        print(status.as_table(rows), end="")
    return 0


def _env(options: argparse.Namespace) -> int:
    context = os.environ.get(plane.EXISTING, "")
    if context:
        raise ControlPlaneError(
            f"{plane.EXISTING} is set: use your own KUBECONFIG with `kubectl --context {context}`"
        )
    _print_access(plane.attach(options.name), output=options.output)
    return 0


def _build(options: argparse.Namespace) -> int:
    if os.environ.get(plane.EXISTING) and shutil.which("kubectl"):
        # The user's cluster, and so the user's kubectl, of whatever release.
        print(f"nothing is built: {plane.EXISTING} names a cluster", file=sys.stderr)
        return 0
    if options.check:
        absent = binaries.missing(options.variant)
        if absent:
            print(f"not built: {', '.join(absent)}", file=sys.stderr)
        return int(bool(absent))
    found = binaries.locate(
        variant=options.variant,
        report=lambda line: print(line, file=sys.stderr),
    )
    for name, path in found.items():
        print(f"{name:<24} {path}")
    return 0


def _print_access(running: ControlPlane, *, output: str) -> None:
    if output == "json":
        access = {
            "name": running.name,
            "server": running.server,
            "kubeconfig": str(running.kubeconfig),
            "directory": str(running.directory),
            "kubectl": str(running.kubectl_program),
        }
        print(json.dumps(access), flush=True)
        return
    print(f"export KUBECONFIG={shlex.quote(str(running.kubeconfig))}")
    print(f'export PATH={shlex.quote(str(running.kubectl_program.parent))}:"$PATH"', flush=True)


def _reporter(started: float) -> Callable[[str], None]:
    return lambda line: _say(started, line)


def _say(started: float, line: str) -> None:
    print(f"{time.monotonic() - started:5.1f} s  {line}", file=sys.stderr, flush=True)


def _interrupt_at_eof() -> None:
    # Not sys.stdin: a thread inside its buffer would disturb the end of the interpreter.
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _let_vary(command: argparse.ArgumentParser) -> None:
    variants = command.add_mutually_exclusive_group()
    variants.add_argument(
        "--node",
        dest="variant",
        action="store_const",
        const=Variant.NODE,
        default=Variant.USUAL,
        help="a real node runs containers in place of kwok's (needs root and packages)",
    )
    variants.add_argument(
        "--oldest",
        dest="variant",
        action="store_const",
        const=Variant.OLDEST,
        help="the oldest release of Kubernetes that Penstock supports",
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m controlplane",
        description="Run etcd, the API server, its controllers and kwok on loopback.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(
        name: str, run: Callable[[argparse.Namespace], int], text: str
    ) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text)
        made.set_defaults(run=run)
        return made

    def named(made: argparse.ArgumentParser) -> argparse.ArgumentParser:
        made.add_argument("--name", default="default", help="which instance (default: default)")
        return made

    def printing(made: argparse.ArgumentParser, *formats: str) -> None:
        made.add_argument("-o", "--output", choices=formats, default=formats[0])

    up = named(command("up", _up, "start an instance and keep it until Ctrl-C"))
    up.add_argument("--detach", action="store_true", help="return and leave it running")
    up.add_argument(
        "--until-eof", action="store_true", help="stop when standard input closes (for programs)"
    )
    up.add_argument(
        "--use-existing",
        metavar="CONTEXT",
        help=f"use this context of your kubeconfig instead (same as {plane.EXISTING})",
    )
    _let_vary(up)
    printing(up, "shell", "json")
    down = named(command("down", _down, "stop an instance and remove its data"))
    down.add_argument("--all", action="store_true", help="stop every instance")
    load = named(command("load", _load, "give the real node images from archives"))
    load.add_argument("archives", nargs="+", type=Path, metavar="ARCHIVE")
    printing(command("status", _status, "show instances and their components"), "table", "json")
    printing(
        named(command("env", _env, "print shell lines that select an instance")), "shell", "json"
    )
    build = command("build", _build, "find or build the programs and show where they are")
    build.add_argument(
        "--check", action="store_true", help="build nothing; exit 1 if one is missing"
    )
    _let_vary(build)
    return parser


if __name__ == "__main__":
    sys.exit(main())
