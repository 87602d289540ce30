"""Runs all benchmarks, or one program of a folder here by its name.

python scripts/bench/run.py --repeat 5 --json all.json --results
python scripts/bench/run.py --benchmarks dense_sgd,predict --scale 0.1
python scripts/bench/run.py stored_convergence --scale 0.25

The options of each are shown by --help after its name.
"""

import runpy
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(folder) for folder in sorted(HERE.iterdir()) if folder.is_dir()]


def main() -> None:
    """Runs the named program with the arguments that follow."""
    name = "all_benchmarks"
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        name = sys.argv.pop(1).removesuffix(".py")
    if not list(HERE.glob(f"*/{name}.py")):
        known = sorted(path.stem for path in HERE.glob("*/*.py"))
        sys.exit(f"no benchmark is called {name}, expected one of {', '.join(known)}")
    runpy.run_module(name, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
