"""Programs that note what engines ask of them."""

from tuskml.schedule import Program


class Ring(Program):
    """Blocks that are lists of the workers that had them; the model is all of these lists."""

    def __init__(self, weights, before=lambda p, block: None):
        self.weights, self.before, self.begun = weights, before, []

    def schedule(self, A, D):
        return list(range(len(self.weights)))

    def part(self, S_p, A):
        return []

    def weight(self, S_p):
        return self.weights[S_p]

    def update(self, p, S_p, D_p, A):
        self.before(p, S_p)
        D_p.append(S_p)
        return [*A, p]

    def aggregate(self, R, A):
        return [*A, list(R)]

    def local(self, p, D_p):
        return D_p


class Counting(Program):
    """The model is how many iterations were aggregated; jobs say what was known of them."""

    def __init__(self, most_ahead=100):
        self.seen, self.most_ahead, self.asked = [], most_ahead, 0

    def schedule(self, A, D):
        if self.asked - A >= self.most_ahead:
            return []
        self.asked += 1
        self.seen.append(A)
        return [(self.asked, p) for p in range(len(D))]

    def update(self, p, S_p, D_p, A):
        assert S_p[1] == p
        return S_p[0]

    def aggregate(self, R, A):
        assert set(R) == {A + 1}, "iterations are aggregated in their order"
        return A + 1
