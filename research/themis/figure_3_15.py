"""Figures 3.15 and 3.16: the part of network-intensive apps. A simulation of 64 GPUs."""

from collections.abc import Iterator

from research import report
from research.report import Found
from research.themis.runs import POLICIES, medians


def find(scale: float) -> Iterator[Found]:
    """Greatest rho and GPU time, with apps of both kinds and with network-intensive ones only."""
    others = ("Gandiva", "Tiresias", "SLAQ", "Optimus")
    for network, paper, least in ((0.5, "above 1", 1.0), (1.0, "1.24 to 1.77", 1.24)):
        ours = medians(POLICIES["Themis"], 64, scale, network=network)
        rest = {name: medians(POLICIES[name], 64, scale, network=network) for name in others}
        at = f"{network:.0%} network-intensive"
        ratio = min(one["most"] for one in rest.values()) / ours["most"]
        yield Found(f"{at}: least greatest rho of others over Themis", paper, ratio, least=least)
        if network == 1.0:
            more = rest["Gandiva"]["gpu_hours"] / ours["gpu_hours"]
            yield Found(f"{at}: GPU time of Gandiva over Themis", "1.081", more, least=1.081)


if __name__ == "__main__":
    report.main(find, simulated=True)
