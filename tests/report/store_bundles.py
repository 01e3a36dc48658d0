"""Writes the stored bundles of the demo anew: `python -m tests.report.store_bundles`, then update the golden files.

Each holds the result alone, with an environment that says nothing of the machine. `first` is kept as the first version
wrote it, and is never written again.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from validator.demo import DAY, SCENARIOS, SEED, build_repository
from validator.pipeline import Options, check
from validator.report.bundle import bundle_files
from validator.verdict.attest import statement
from validator.verdict.bundle import ENVIRONMENT, RESULT, STATEMENT, dump, write_bundle

HERE = Path(__file__).parent / "bundles"


def main() -> None:
    for scenario in SCENARIOS:
        with tempfile.TemporaryDirectory() as folder:
            build_repository(scenario, Path(folder))
            result = check(Options(Path(folder), "main", "change", seed=SEED), clock=lambda: DAY)
        files = bundle_files(result)
        environment = json.loads(files[ENVIRONMENT])
        environment |= {"python": "3", "platform": "Linux", "repository": "/repository", "seconds": 1.0}
        kept = {name: data for name, data in files.items() if name == RESULT or name.startswith("excerpts/")}
        about = json.loads(files[RESULT])
        write_bundle(
            HERE / scenario.name,
            {**kept, ENVIRONMENT: dump(environment)},
            result.verdict.value,
            lambda manifest, about=about: {STATEMENT: dump(statement(manifest, about))},  # type: ignore[misc]
        )


if __name__ == "__main__":
    main()
