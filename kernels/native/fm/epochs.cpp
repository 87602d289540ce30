#include "epochs.hpp"

#include <algorithm>
#include <atomic>
#include <numeric>

namespace tusk::fm {
namespace {

// A label in the units of the training.
struct Label {
    double positive, shift, inverse;
    bool logistic;
    Label(const Training &t, const Rows &rows)
        : positive(rows.positive), shift(t.units->label_shift),
          inverse(t.units->label_scale > 0 ? 1 / t.units->label_scale : 0),
          logistic(t.fm->loss == TK_FM_LOGISTIC) {}
    float operator()(double y) const {
        return logistic ? (float)(y == positive) : (float)((y - shift) * inverse);
    }
};

Rule rule_of(const Training &t, int64_t number) {
    const tk_fm &fm = *t.fm;
    bool adagrad = fm.algorithm == TK_FM_ADAGRAD;
    double rate = t.rate / (adagrad ? 1 : std::sqrt((double)(number + 1)));
    return {(float)rate, (float)fm.l2, (float)fm.l2_factors, 1 / (float)fm.rank, adagrad};
}

// A thread's copy of the bias while it is in a piece, so that threads do not wait for one
// another's cache line at every row.
class OwnBias {
public:
    explicit OwnBias(Machine &m)
        : shared_(m), mine_(m_read(m.bias)), squares_(m_read(m.bias_squares)) {
        before_ = mine_, squares_before_ = squares_;
    }
    ~OwnBias() {
        add(shared_.bias, mine_ - before_);
        add(shared_.bias_squares, squares_ - squares_before_);
    }
    float value() const { return mine_; }
    void step(const Rule &rule, float slope) {
        mine_ -= rate_of(rule, &squares_, slope * slope) * slope;
    }

private:
    static float m_read(float &x) {
        return std::atomic_ref<float>(x).load(std::memory_order_relaxed);
    }
    static void add(float &x, float by) {
        std::atomic_ref<float>(x).fetch_add(by, std::memory_order_relaxed);
    }
    Machine &shared_;
    float mine_, squares_, before_ = 0, squares_before_ = 0;
};

// Makes steps over the rows of a piece; returns the sum of their losses.
template <int W, bool Ones>
double step_piece(const Training &t, const Piece &p, const Rule &rule) {
    Machine &m = *t.machine;
    const RowsOf rows(t.rows, p, Ones);
    const Targets targets = targets_of(p.segment, t.rows.shape());
    const Label label(t, t.rows);
    OwnBias bias(m);
    v8f sums[W ? W : MOST_WIDES];
    double loss = 0;
    const uint32_t end = p.first + p.n;
    for (uint32_t i = p.first; i < end; i++) {
        const Row row = rows.at(i);
        if (i + 1 < end)
            prefetch(m, rows.at(i + 1));
        float y = label(targets.y[i]), slope;
        float margins = margin<W, Ones>(m, row, bias.value(), sums);
        float own = label.logistic ? logistic(margins, y, &slope) : squared(margins, y, &slope);
        float weight = targets.weight ? (float)(targets.weight[i] * t.units->weight) : 1;
        loss += (double)(weight * own);
        step<W, Ones>(m, row, sums, weight * slope, rule);
        bias.step(rule, weight * slope);
    }
    return loss;
}

// The penalties of a row.
template <bool Ones> float penalty(const Machine &m, const Row &row, const Rule &rule) {
    float sum = 0;
    for (int64_t e = 0; e < row.n; e++) {
        if (!Ones && row.x[e] == 0)
            continue;
        const float *block = m.block(row.feature(e)), w = m.behind(row.feature(e))[LINEAR];
        v8f squares{};
        for (int k = 0; k < m.wides(); k++)
            squares += load8(block + k * WIDE) * load8(block + k * WIDE);
        sum += rule.l2 * w * w + rule.l2_factors * sum8(squares);
    }
    return sum / 2;
}

template <int W, bool Ones>
double lose_piece(const Training &t, const Rows &of, const Piece &p, bool penalties) {
    const Machine &m = *t.machine;
    const Rule rule = rule_of(t, 0);
    const RowsOf rows(of, p, Ones);
    const Targets targets = targets_of(p.segment, of.shape());
    const Label label(t, of);
    v8f sums[W ? W : MOST_WIDES];
    double loss = 0;
    for (uint32_t i = p.first; i < p.first + p.n; i++) {
        const Row row = rows.at(i);
        float y = label(targets.y[i]), slope, margins = margin<W, Ones>(m, row, m.bias, sums);
        double own = label.logistic ? logistic(margins, y, &slope) : squared(margins, y, &slope);
        double weight = targets.weight ? targets.weight[i] * t.units->weight : 1;
        loss += weight * own + (penalties ? (double)penalty<Ones>(m, row, rule) : 0);
    }
    return loss;
}

// The pieces of an epoch in order.
std::vector<uint32_t> order_of(const Training &t, int64_t number) {
    std::vector<uint32_t> order(t.rows.pieces.size());
    std::iota(order.begin(), order.end(), 0U);
    uint64_t state = t.fm->seed * 0x9e3779b97f4a7c15u + (uint64_t)number + 1;
    for (size_t i = order.size(); i > 1; i--) {
        state = state * 6364136223846793005u + 1442695040888963407u; // Knuth's MMIX
        std::swap(order[i - 1], order[(size_t)(((state >> 32) * i) >> 32)]);
    }
    return order;
}

template <template <int, bool> class Of, class... Args>
auto chosen(int wides, bool ones, Args &&...args) {
    switch (wides) {
    case 1:
        return ones ? Of<1, true>::run(args...) : Of<1, false>::run(args...);
    case 2:
        return ones ? Of<2, true>::run(args...) : Of<2, false>::run(args...);
    case 4:
        return ones ? Of<4, true>::run(args...) : Of<4, false>::run(args...);
    default:
        return ones ? Of<0, true>::run(args...) : Of<0, false>::run(args...);
    }
}
template <int W, bool Ones> struct Step {
    static double run(const Training &t, const Piece &p, const Rule &rule) {
        return step_piece<W, Ones>(t, p, rule);
    }
};
template <int W, bool Ones> struct Lose {
    static double run(const Training &t, const Rows &of, const Piece &p, bool penalties) {
        return lose_piece<W, Ones>(t, of, p, penalties);
    }
};

double total(const std::vector<double> &sums) {
    return std::accumulate(sums.begin(), sums.end(), 0.0);
}

} // namespace

int run_epoch(const Training &t, int64_t number, double *loss) {
    const std::vector<uint32_t> order = order_of(t, number);
    const Rule rule = rule_of(t, number);
    std::vector<double> sums(order.size(), 0.0);
    std::atomic<int> code{TK_OK};
    parallel_for((int64_t)order.size(), t.threads, [&](int64_t i) {
        int end = code ? (int)code : t.ending();
        if (end)
            code = end;
        else
            sums[i] =
                chosen<Step>(t.machine->wides(), t.units->ones, t, t.rows.pieces[order[i]], rule);
    });
    *loss = total(sums);
    return code;
}

int sum_losses(const Training &t, const Rows &rows, bool penalties, int threads, double *loss) {
    std::vector<double> sums(rows.pieces.size(), 0.0);
    parallel_for((int64_t)sums.size(), threads, [&](int64_t i) {
        if (!cancelled(t.pass->cancel_mark))
            sums[i] = chosen<Lose>(t.machine->wides(), t.units->ones, t, rows, rows.pieces[i],
                                   penalties);
    });
    *loss = total(sums);
    return cancelled(t.pass->cancel_mark) ? TK_CANCELLED : TK_OK;
}

} // namespace tusk::fm
