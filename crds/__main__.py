"""``python -m crds generate`` writes what is made from the models; ``check`` compares it.

``python -m crds print`` shows the definitions, ``--without-gate`` as they are right for a cluster
where no webhooks run: ``python -m crds print --without-gate | kubectl apply --server-side -f -``.
"""

import argparse
import sys

from crds import generate, written


def main() -> int:
    """Run one of the commands; ``check`` fails when a generated file is out of date."""
    parser = argparse.ArgumentParser(prog="python -m crds", description=__doc__)
    parser.add_argument("command", choices=("generate", "check", "print"))
    parser.add_argument(
        "--without-gate", action="store_true", help="serve no version that needs it"
    )
    chosen = parser.parse_args()
    if chosen.command == "print":
        sys.stdout.writelines(generate.definitions(gate=not chosen.without_gate))
        return 0
    return written.main([chosen.command], generate.outputs(), whole=generate.WHOLE)


if __name__ == "__main__":
    sys.exit(main())
