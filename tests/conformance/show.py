"""One lifetime, call by call: ``python -m tests.conformance.show SEED --subject twin --last 20``.

Prints the configuration, the last calls, what was exempt, and the first difference.
"""

from __future__ import annotations

import argparse
import json
import sys

from tests.conformance.lifetimes import run_lifetime
from tests.conformance.modules import Missing, load


def main() -> int:
    """Command line; returns 1 when the lifetime shows a difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--subject", choices=("twin", "real"), default="twin")
    parser.add_argument("--last", type=int, default=20, help="how many calls to print")
    arguments = parser.parse_args()
    reference, subject = load("real"), load(arguments.subject)
    for found in (reference, subject):
        if isinstance(found, Missing):
            sys.exit(found.reason)
    assert not isinstance(reference, Missing) and not isinstance(subject, Missing)
    life = run_lifetime(arguments.seed, reference, subject)
    print(json.dumps(life.config, indent=1))
    first = max(0, len(life.calls) - arguments.last)
    for number, call in enumerate(life.calls[first:], start=first):
        print(number, call)
    for number, fault in life.exemptions:
        print(f"exempt at call {number}: {fault}")
    print(life.describe() or "no difference")
    return 1 if life.difference else 0


if __name__ == "__main__":
    sys.exit(main())
