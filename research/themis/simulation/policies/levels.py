"""Schedulers that divide workers: DRF, Optimus, SLAQ, Gavel and Shockwave."""

import math

import numpy as np

from research.themis.simulation.running import Array, Running, Shares, View, filled, rounded


def shuffled(view: View) -> list[Running]:
    """Those that could use more, in random order: what cannot be divided goes to the first."""
    apps = view.wanting
    return [apps[place] for place in view.draw.permutation(len(apps)).tolist()]


def columns(apps: list[Running]) -> tuple[Array, Array]:
    """Workers that are wanted, and those that are held (N,)."""
    wanted = np.array([app.unmet for app in apps], float)
    return wanted, np.array([app.workers for app in apps], float)


def drf(view: View) -> Shares:
    """Equal numbers of workers, at every end of leases (A. Ghodsi et al., NSDI 2011).

    Where there are fewer workers than apps, those that had the least come first.
    """
    apps = sorted(view.wanting, key=lambda app: app.spent)
    wanted, held = columns(apps)
    return list(zip(apps, filled(wanted, np.ones(len(apps)), view.free, held), strict=True))


def optimus(view: View) -> Shares:
    """The greatest ratio of a job's throughput with and without another worker (Y. Peng et al.,
    EuroSys 2018): with nearly linear speedup, equal numbers of workers for each job."""
    apps = shuffled(view)
    wanted, held = columns(apps)
    jobs = np.array([app.now_in.jobs for app in apps], float)
    return list(zip(apps, filled(wanted, jobs, view.free, held), strict=True))


def slaq(view: View) -> Shares:
    """The greatest fall of all losses in the next lease (H. Zhang et al., SoCC 2017).

    The loss halves with each `Spec.halving` seconds of work, so its fall by workers is concave and
    the greedy choice of one worker after another is a price that all pay.
    """
    apps = shuffled(view)
    wanted, held = columns(apps)
    halving = np.array([app.spec.halving for app in apps]) / view.lease
    done = np.array([app.service / app.spec.halving for app in apps])
    first = -done - np.log2(halving)  # logarithm of what a worker brings at first
    low, high = float((first - (wanted + held) / halving).min()) - 1, float(first.max()) + 1
    free = int(min(view.free, wanted.sum()))
    for _ in range(60):
        price = (low + high) / 2
        if np.clip((first - price) * halving - held, 0, wanted).sum() > free:
            low = price
        else:
            high = price
    exact = np.clip((first - low) * halving - held, 0, wanted)
    return list(zip(apps, rounded(exact, wanted, free), strict=True))


def rates_for(target: float, elapsed: Array, left: Array, ideal: Array, most: Array) -> Array:
    """Workers with which each app ends at the finish-time fairness `target` (N,)."""
    time = target * ideal - elapsed
    with np.errstate(divide="ignore"):
        needed = np.where(time > 0, left / np.maximum(time, 1e-9), most)
    return np.minimum(needed, most)


class Gavel:
    """The smallest greatest rho (D. Narayanan et al., OSDI 2020, finish-time fairness, equation
    6).

    Workers are alike, so the linear program is a bisection. What is asked for on average is given
    in whole workers by rounds, those first that lag behind most.
    """

    def __init__(self) -> None:
        self.credit: dict[int, float] = {}

    def __call__(self, view: View) -> Shares:
        """Free workers, for those that could use more."""
        apps = shuffled(view)
        wanted, held = columns(apps)
        asked = self.asked(view, apps, wanted + held)
        credit = np.array([self.credit.get(app.number, 0.0) for app in apps]) + asked
        exact = np.clip(credit - held, 0, wanted)
        free = int(min(view.free, wanted.sum()))
        if exact.sum() > free:
            exact *= free / exact.sum()
        found = np.array(rounded(exact, wanted, min(free, math.ceil(exact.sum() - 1e-9))))
        rest = filled(wanted - found, np.ones(len(apps)), free - int(found.sum()), found + held)
        whole = [int(a) + b for a, b in zip(found.tolist(), rest, strict=True)]
        for app, n, due in zip(apps, whole, credit.tolist(), strict=True):
            owed = due - n - app.workers
            self.credit[app.number] = min(max(owed, -app.now_in.demand), app.now_in.demand)
        return list(zip(apps, whole, strict=True))

    def asked(self, view: View, apps: list[Running], most: Array) -> Array:
        """Workers on average, at the least rho for which there are enough (N,)."""
        elapsed = np.array([view.now - app.spec.arrival for app in apps])
        left = np.array([app.remaining for app in apps])
        ideal = np.array([app.spec.ideal(view.share(app)) for app in apps])
        total = float(view.free + sum(app.workers for app in apps))
        low, high = 0.0, 1.0
        while rates_for(high, elapsed, left, ideal, most).sum() > total and high < 1e6:
            high *= 2
        for _ in range(50):
            target = (low + high) / 2
            if rates_for(target, elapsed, left, ideal, most).sum() > total:
                low = target
            else:
                high = target
        return rates_for(high, elapsed, left, ideal, most)


def shockwave(view: View) -> Shares:
    """A market in which those pay more that end late (P. Zheng et al., NSDI 2023), simplified.

    Its program maximises the sum of priorities times the logarithm of progress over the next
    rounds, less the makespan. Here each round is a market of its own: budgets are the predicted
    rho to the power of 5, as in the paper's section 6, equal prices clear it, and an app that ends
    last even with all it can use has at least its part of the cluster.
    """
    apps = shuffled(view)
    wanted, held = columns(apps)
    budgets = np.array([predicted_rho(view, app) for app in apps]) ** 5
    budgets /= budgets.sum()
    alone = np.array([app.seconds_left(math.inf) for app in apps])
    longest = alone >= 0.9 * alone.max()
    budgets = np.where(longest, np.maximum(budgets, 1 / len(apps)), budgets)
    return list(zip(apps, filled(wanted, budgets, view.free, held), strict=True))


def predicted_rho(view: View, app: Running) -> float:
    """If it has its share from now on."""
    share = view.share(app)
    return (view.now - app.spec.arrival + app.seconds_left(share)) / app.spec.ideal(share)
