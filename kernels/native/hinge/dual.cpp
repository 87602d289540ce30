// Dual coordinate descent for the hinge with an l2 penalty: Hsieh, Chang, Lin, Keerthi and
// Sundararajan, A dual coordinate descent method for large-scale linear SVM, ICML 2008, algorithms
// 1 to 3. With z = x - shift and n rows of weights c_i, the dual over 0 <= alpha_i <= c_i is
//   max  1/n sum alpha_i - l2/2 ||w||^2,   w = 1/(l2 n) sum alpha_i y_i z_i.
// The intercept has no penalty, which adds the constraint sum alpha_i y_i = 0. Under it no
// coordinate could move alone. So the intercept becomes the weight of a feature 1 with the penalty
// rho/2 (b - centre)^2, b = centre + 1/(rho n) sum alpha_i y_i, and the centre follows b. This is
// the proximal point algorithm (Rockafellar, Monotone operators and the proximal point algorithm,
// 1976); for the dual it is the method of multipliers.
#include <cmath>
#include <limits>

#include "../epochs/order.hpp"
#include "dual.hpp"

namespace tusk {
namespace {

constexpr double INFINITE = std::numeric_limits<double>::infinity();
constexpr double LEFT_OUT = INFINITE;
constexpr double NO_MOVE = 1e-12;   // projected gradient at or below which a coordinate stays
constexpr int64_t LOOK_EVERY = 128; // rows between two checks for a cancel
constexpr int64_t AHEAD = 4;        // rows to prefetch
constexpr double OVERLOOKED = 0.1;  // fraction of the gap above which shrunk rows are used again

// The arrays of one group, by row number.
struct Duals {
    double *alpha, *norm, *margin, *weight;
    int32_t *order;
    int8_t *sign;
    tk_dual_group *group;
    double cost[2]; // of the class -1 and of +1
    bool fit;

    Duals(const tk_pass *pass, const tk_dual *dual, int64_t g) : fit(pass->fit_intercept) {
        int64_t at = dual->offset[g];
        alpha = dual->alpha + at;
        norm = dual->norm + at;
        margin = dual->margin + at;
        order = dual->order + at;
        sign = dual->sign + at;
        weight = dual->weight ? dual->weight + at : nullptr;
        group = dual->groups + g;
        Labels labels(pass, g);
        cost[0] = labels.weight_negative;
        cost[1] = labels.weight_positive;
    }

    double cost_of(int64_t i) const { return cost[sign[i] > 0] * (weight ? weight[i] : 1); }
};

template <class Body> auto with_rows(const tk_pass *pass, Body &&body) {
    return with_storage(pass, [&]<class T>(const T *) {
        if (tusk_is_sparse(pass->groups[0].kind))
            return body.template operator()<SparseRows<T>>();
        return body.template operator()<DenseRows<T>>();
    });
}

// The range of chunks that belong to each group.
std::vector<std::pair<size_t, size_t>> spans_of(const tk_pass *pass, const Numbered &rows) {
    std::vector<std::pair<size_t, size_t>> spans(pass->n_groups);
    for (size_t c = 0, end; c < rows.chunks.size(); c = end) {
        for (end = c; end < rows.chunks.size() && rows.chunks[end].group == rows.chunks[c].group;)
            end++;
        spans[rows.chunks[c].group] = {c, end};
    }
    return spans;
}

// Fills a chunk's part of the arrays for alpha = 0.
template <class Rows>
void start(const tk_pass *pass, const Rows &rows, const Chunk &c, int64_t first,
           const Labels &labels, const StepWeights &weights, const Duals &duals) {
    std::vector<double> sums(pass->groups[0].dim);
    int64_t i = first;
    rows.visit(c, [&](const auto &x) {
        if (i % LOOK_EVERY != 0 || !cancelled(pass->cancel_mark))
            duals.norm[i] = rows.squared_length(x, sums);
        duals.alpha[i] = 0;
        duals.order[i] = (int32_t)i;
        i++;
    });
    const tusk_segment *s = c.segment;
    uint32_t at = c.offset;
    for (i = first; i < first + c.rows; i++, at++) {
        for (; at == s->n_rows; at = 0)
            s = s->next;
        duals.sign[i] = tusk_labels(s)[at] == labels.positive ? 1 : -1;
        if (duals.weight)
            duals.weight[i] = weights.of(s)[at] * weights.inverse();
    }
}

// A row and its values, stored together, because rows are visited in random order.
template <class Row> struct Example {
    Row x;
    double alpha, curvature, sign, cost;
};

// The sweeps of algorithm 3 over the rows in use, in random order. They end after about as many
// coordinates as there are rows, or when the projected gradients of all rows differ by at most the
// tolerance.
template <class Rows> class Sweeps {
public:
    Sweeps(const tk_pass *pass, const tk_dual *dual, int64_t g, const Duals &duals, double *v)
        : pass_(pass), rows_(pass->groups[0].dim, dual->shift + g * pass->groups[0].dim),
          of_(duals), state_(*duals.group), d_(pass->groups[0].dim), n_(state_.n_rows),
          tolerance_(dual->tolerance), unit_(1.0 / (dual->l2 * (double)n_)),
          unit_b_(duals.fit ? 1.0 / (state_.rho * (double)n_) : 0.0), v_(v), b_(v[d_]) {
        if (rows_.width() > d_) { // the caller's weights have no padding
            own_.assign(rows_.width(), 0.0);
            std::copy_n(v, d_, own_.begin());
        }
        w_ = own_.empty() ? v : own_.data();
        examples_.reserve(n_);
    }

    void add(const Chunk &c) {
        rows_.visit(c, [&](const auto &x) {
            int64_t i = (int64_t)examples_.size();
            double curvature = of_.norm[i] * unit_ + unit_b_;
            examples_.push_back({x, of_.alpha[i], curvature, (double)of_.sign[i], of_.cost_of(i)});
        });
    }

    void run() {
        if (of_.fit) {
            double moved = b_ - state_.centre;
            state_.centre = b_;
            b_ += moved;
        }
        state_.gained = 0;
        for (int64_t looked = 0;
             looked + state_.in_use / 2 < n_ && !cancelled(pass_->cancel_mark);) {
            looked += state_.in_use;
            if (sweep() > tolerance_)
                continue;
            if (state_.in_use == n_)
                break;
            state_.in_use = n_;
            state_.most = INFINITE;
            state_.least = -INFINITE;
        }
        state_.gained /= (double)n_;
        for (int64_t i = 0; i < n_; i++)
            of_.alpha[i] = examples_[i].alpha;
        if (!own_.empty())
            std::copy_n(w_, d_, v_);
        v_[d_] = b_;
    }

private:
    const tk_pass *pass_;
    Rows rows_;
    const Duals &of_;
    tk_dual_group &state_;
    std::vector<Example<typename Rows::Row>> examples_;
    std::vector<double> own_;
    double *w_;
    int64_t d_, n_;
    double tolerance_, unit_, unit_b_;
    double *v_, b_;

    void expect(int64_t s) {
        if (s + 2 * AHEAD < state_.in_use)
            __builtin_prefetch(&examples_[of_.order[s + 2 * AHEAD]]);
        if (s + AHEAD < state_.in_use)
            rows_.expect(examples_[of_.order[s + AHEAD]].x);
    }

    void shuffle() {
        for (int64_t i = state_.in_use; i > 1; i--) {
            uint64_t random = next_random(state_.random);
            std::swap(of_.order[i - 1], of_.order[((__uint128_t)random * (uint64_t)i) >> 64]);
        }
    }

    // Visits each row in use once. Returns the range of the projected gradients.
    double sweep() {
        double high = -INFINITE, low = INFINITE;
        shuffle();
        for (int64_t s = 0; s < state_.in_use; s++) {
            if (s % LOOK_EVERY == 0 && cancelled(pass_->cancel_mark))
                return 0;
            expect(s);
            double projected = visit(examples_[of_.order[s]]);
            if (projected == LEFT_OUT) { // the last row in use takes its position
                std::swap(of_.order[s--], of_.order[--state_.in_use]);
                continue;
            }
            high = std::max(high, projected);
            low = std::min(low, projected);
        }
        state_.most = high > 0 ? high : INFINITE;
        state_.least = low < 0 ? low : -INFINITE;
        return state_.in_use ? high - low : 0;
    }

    // Moves one coordinate. Returns its projected gradient, or LEFT_OUT if the row can be shrunk.
    double visit(Example<typename Rows::Row> &e) {
        const double cost = e.cost;
        double slope = e.sign * (rows_.dot(e.x, w_) + b_) - 1, projected = slope;
        if (e.alpha == 0) {
            if (slope > state_.most)
                return LEFT_OUT;
            projected = std::min(slope, 0.0);
        } else if (e.alpha == cost) {
            if (slope < state_.least)
                return LEFT_OUT;
            projected = std::max(slope, 0.0);
        }
        if (std::fabs(projected) > NO_MOVE) {
            double to = e.curvature > 0 ? e.alpha - slope / e.curvature : slope < 0 ? cost : 0.0;
            to = std::min(std::max(to, 0.0), cost);
            double change = to - e.alpha, by = change * e.sign;
            state_.gained -= (slope + e.curvature * change / 2) * change;
            e.alpha = to;
            rows_.move(e.x, by * unit_, w_);
            b_ += by * unit_b_;
        }
        return projected;
    }
};

template <class T>
void margins_of(const tk_pass *pass, const Chunk &c, const double *w, double b, double *out) {
    int64_t d = pass->groups[0].dim;
    if (tusk_is_sparse(pass->groups[0].kind)) {
        for_sparse_blocks<T>(c, BLOCK_ROWS, [&](const SparseBlock<T> &rows) {
            if (!cancelled(pass->cancel_mark))
                margins(rows, w, b, out);
            out += rows.n;
        });
        return;
    }
    std::vector<double> weights(padded(d), 0.0);
    std::copy_n(w, d, weights.begin());
    alignas(64) double m[BLOCK_ROWS];
    for_dense_blocks<T>(c, d, block_rows<T>(d), [&](const auto &x, const double *, int n) {
        margins(x, n, d, weights.data(), b, m);
        out = std::copy_n(m, n, out);
    });
}

// Uses all rows again if the shrunk ones contribute too much to the duality gap.
void look_at_all(const Duals &duals, double gaps) {
    tk_dual_group &out = *duals.group;
    double overlooked = 0;
    for (int64_t at = out.in_use; at < out.n_rows; at++)
        overlooked += duals.margin[duals.order[at]];
    if (!(overlooked > OVERLOOKED * gaps))
        return;
    out.in_use = out.n_rows;
    out.most = INFINITE;
    out.least = -INFINITE;
}

// Computes the objective at the best intercept, and a lower bound of the optimum: the dual's
// value at feasible alphas. To make them feasible, the alphas of the class with the larger sum are
// scaled down until both classes have the same sum.
void check(const tk_pass *pass, const tk_dual *dual, const double *v, Duals &duals) {
    tk_dual_group &out = *duals.group;
    int64_t n = out.n_rows, d = pass->groups[0].dim;
    double b = duals.fit ? BestIntercept({duals.sign, duals.margin, n, duals.cost,
                                          pass->cancel_mark, duals.weight})
                               .find(v[d])
                         : 0.0;
    double loss = 0, gaps = 0;
    double sum[2] = {0, 0}, along[2] = {0, 0}, length[2] = {0, 0};
    for (int64_t i = 0; i < n; i++) {
        if (i % 65536 == 0 && cancelled(pass->cancel_mark))
            return;
        double y = duals.sign[i], alpha = duals.alpha[i], m = duals.margin[i];
        double under = 1 - y * (m + b), each = duals.cost_of(i) * std::max(under, 0.0);
        duals.margin[i] = each - alpha * under; // its contribution to the gap
        loss += each;
        gaps += duals.margin[i];
        sum[y > 0] += alpha;
        along[y > 0] += alpha * y * m;
        length[y > 0] += alpha * std::sqrt(duals.norm[i]);
    }
    double squared = 0;
    for (int64_t k = 0; k < d; k++)
        squared += v[k] * v[k];
    out.objective = loss / (double)n + dual->l2 / 2 * squared;
    double alphas = sum[0] + sum[1];
    if (duals.fit && sum[0] != sum[1]) {
        int more = sum[1] > sum[0];
        double cut = (1 - sum[1 - more] / sum[more]) / (dual->l2 * (double)n);
        double off = cut * length[more]; // at most the length of the part taken from w
        squared += -2 * cut * along[more] + off * off;
        alphas = 2 * sum[1 - more];
    }
    out.bound = alphas / (double)n - dual->l2 / 2 * squared;
    out.intercept = b;
    look_at_all(duals, gaps);
}

} // namespace
} // namespace tusk

int tk_dual_start(const tk_pass *pass, tk_dual *dual) {
    using namespace tusk;
    return code_of([&] {
        Numbered all(pass);
        int64_t d = pass->groups[0].dim;
        const auto weights = step_weights(pass);
        with_rows(pass, [&]<class Rows>() {
            parallel_for((int64_t)all.chunks.size(), pass->threads, [&](int64_t i) {
                const Chunk &c = all.chunks[i];
                start(pass, Rows(d, dual->shift + c.group * d), c, all.first[i],
                      Labels(pass, c.group), weights[c.group], Duals(pass, dual, c.group));
            });
        });
        for (int64_t g = 0; g < pass->n_groups; g++) {
            tk_dual_group &state = dual->groups[g];
            state.n_rows = state.in_use = all.n_rows[g];
            state.most = INFINITE;
            state.least = -INFINITE;
            double length = 0;
            for (int64_t i = 0; i < state.n_rows; i++)
                length += dual->norm[dual->offset[g] + i] / (double)state.n_rows;
            state.rho = dual->l2 / (length > 0 ? length : 1.0);
        }
        return cancelled(pass->cancel_mark) ? TK_CANCELLED : TK_OK;
    });
}

int tk_dual_epoch(const tk_pass *pass, tk_dual *dual, double *weights) {
    using namespace tusk;
    return code_of([&] {
        int64_t p = pass->groups[0].dim + 1;
        Numbered all(pass);
        auto spans = spans_of(pass, all);
        with_rows(pass, [&]<class Rows>() {
            parallel_for(pass->n_groups, pass->threads, [&](int64_t g) {
                Duals duals(pass, dual, g);
                Sweeps<Rows> sweeps(pass, dual, g, duals, weights + g * p);
                for (size_t c = spans[g].first; c < spans[g].second; c++)
                    sweeps.add(all.chunks[c]);
                sweeps.run();
            });
        });
        return cancelled(pass->cancel_mark) ? TK_CANCELLED : TK_OK;
    });
}

int tk_dual_check(const tk_pass *pass, tk_dual *dual, const double *weights) {
    using namespace tusk;
    return code_of([&] {
        int64_t d = pass->groups[0].dim;
        Numbered all(pass);
        with_storage(pass, [&]<class T>(const T *) {
            parallel_for((int64_t)all.chunks.size(), pass->threads, [&](int64_t i) {
                const Chunk &c = all.chunks[i];
                const double *w = weights + c.group * (d + 1);
                const double *shift = dual->shift + c.group * d;
                double centre = 0;
                for (int64_t k = 0; k < d && !tusk_is_sparse(pass->groups[0].kind); k++)
                    centre += w[k] * shift[k];
                margins_of<T>(pass, c, w, -centre,
                              dual->margin + dual->offset[c.group] + all.first[i]);
            });
        });
        parallel_for(pass->n_groups, pass->threads, [&](int64_t g) {
            Duals duals(pass, dual, g);
            check(pass, dual, weights + g * (d + 1), duals);
        });
        return cancelled(pass->cancel_mark) ? TK_CANCELLED : TK_OK;
    });
}
