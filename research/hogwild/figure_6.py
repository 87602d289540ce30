"""Figure 6: processor seconds of three epochs by the size of the cache.

The small cache is the least that the option takes, 16 MB, below the weights of `skewed`.
"""

from collections.abc import Iterator

from research import report
from research.hogwild.stores import data_of, run, stored
from research.report import Found

SMALL, LARGE = "16MB", "1GiB"


def find(scale: float) -> Iterator[Found]:
    """Seconds with the small cache over those with the large one."""
    data = data_of("skewed", 0.5 * scale)
    methods = {
        f"{method} {cache}": stored(method, cache=cache)
        for method in ("KV", "KV-VP")
        for cache in (SMALL, LARGE)
    }
    usual = {key: value for key, value in stored("KV").items() if key != "method"}
    methods |= {f"default {cache}": usual | {"cache": cache} for cache in (SMALL, LARGE)}
    took = {name: run(data, options, 3).seconds for name, options in methods.items()}
    for method, paper in (("KV", "far above 2"), ("KV-VP", "above 1"), ("default", "")):
        ratio = took[f"{method} {SMALL}"] / took[f"{method} {LARGE}"]
        most = 2.0 if method == "default" else None
        what = f"skewed, {method}: seconds, {SMALL} over {LARGE}"
        yield Found(what, paper, ratio, least=None if most else 1.0, most=most)
    fewer = took[f"KV {SMALL}"] / took[f"KV-VP {SMALL}"]
    yield Found(f"skewed, {SMALL}: KV over KV-VP", "above 1", fewer, least=1.0)


if __name__ == "__main__":
    report.main(find)
