"""``python -m crds generate`` writes what is made from the models; ``check`` compares it."""

import argparse
import sys

from crds import generate


def main() -> int:
    """Run one of the two commands; ``check`` fails when a generated file is out of date."""
    parser = argparse.ArgumentParser(prog="python -m crds", description=__doc__)
    parser.add_argument("command", choices=("generate", "check"))
    if parser.parse_args().command == "generate":
        generate.write()
        return 0
    found = list(generate.differences())
    sys.stdout.writelines(found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
