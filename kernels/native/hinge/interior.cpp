// A primal-dual interior-point method for the hinge: Mehrotra, On the implementation of a
// primal-dual interior point method, 1992; for support vector machines, Ferris and Munson,
// Interior-point methods for massive support vector machines, 2002.
//
// Row i of n has a margin m_i, a class y_i and a weight c_i. It has three variables: a dual
// variable a_i, 0 < a_i < c_i; an excess e_i > 0, which becomes its hinge loss; and a slack
// s_i = y_i m_i + e_i - 1 > 0. At the optimum a_i s_i = 0 and (c_i - a_i) e_i = 0. On the way
// there, the method aims at t > 0 for both. Newton's step for these equations changes the weights
// by the solution dv of
//   (penalty + 1/n sum h_i z_i z_i') dv = -(penalty v) + 1/n sum (a_i + h_i q_i) y_i z_i,
//   1/h_i = s_i / a_i + e_i / (c_i - a_i),
//   q_i = p_i / a_i - r_i / (c_i - a_i),
// where a_i s_i has to change by p_i, and (c_i - a_i) e_i by r_i. The change of the margins then
// gives the changes of the variables. Arrays are in the order in which the pass reads the rows.
//
// The loss of a quantile q is max(y - m, 0) - (1 - q) (y - m): a hinge whose corner is at the
// label y, with y_i = 1 above, and a slope 1 - q, the tilt, which a_i is less of in all gradients.
#include <cmath>
#include <vector>

#include "../epochs/step_weights.hpp"
#include "../linear/dense.hpp"
#include "../linear/numbered.hpp"
#include "api.h"

namespace tusk {
namespace {

constexpr int64_t PIECE_ROWS = 16384;

// Neighbouring rows of a group.
struct Stretch {
    int64_t group, first, last;
};

// One row's variables.
struct Variables {
    double a, s, e, u, y;
};

// The change of these variables in a step.
struct Moves {
    double a, s, e;
};

class Interior {
public:
    Interior(const tk_pass *pass, const tk_interior *rows) : pass_(pass), rows_(rows) {
        for (int64_t g = 0; g < pass->n_groups; g++) {
            int64_t at = rows->offset[g], end = at + rows->groups[g].n_rows;
            for (; at < end; at += PIECE_ROWS)
                stretches_.push_back({g, at, std::min(at + PIECE_ROWS, end)});
        }
    }

    // Calls body(sum, group, row, weight of its loss) for all rows and returns the sums per group.
    // Each stretch of rows has a separate sum; they are merged in order. If the pass is cancelled,
    // the sums are incomplete.
    template <class Sum, class Body> std::vector<Sum> over(Sum zero, Body &&body) const {
        std::vector<Sum> parts(stretches_.size(), zero), sums(pass_->n_groups, zero);
        parallel_for((int64_t)stretches_.size(), pass_->threads, [&](int64_t k) {
            const Stretch &here = stretches_[k];
            if (cancelled(pass_->cancel_mark))
                return;
            Labels labels(pass_, here.group);
            const double cost[2] = {labels.weight_negative, labels.weight_positive};
            for (int64_t i = here.first; i < here.last; i++)
                body(parts[k], here.group, i,
                     cost[rows_->sign[i] > 0] * (rows_->weight ? rows_->weight[i] : 1));
        });
        for (size_t k = 0; k < stretches_.size(); k++)
            sums[stretches_[k].group].add(parts[k]);
        return sums;
    }

    Variables at(int64_t i, double cost) const {
        return {rows_->alpha[i], rows_->slack[i], rows_->excess[i], cost - rows_->alpha[i],
                (double)rows_->sign[i]};
    }

    static double curvature(const Variables &v) { return 1.0 / (v.s / v.a + v.e / v.u); }

    // Required changes of the products a s and u e.
    std::pair<double, double> asked(const Variables &v, int64_t g, int64_t i, int mode) const {
        double lower = -v.a * v.s, upper = -v.u * v.e;
        if (mode == TK_CORRECTED) {
            Moves bent = moves(v, lower, upper, rows_->affine[i]);
            lower += rows_->groups[g].target - bent.a * bent.s;
            upper += rows_->groups[g].target + bent.a * bent.e;
        }
        return {lower, upper};
    }

    static Moves moves(const Variables &v, double lower, double upper, double margin) {
        double a = curvature(v) * (lower / v.a - upper / v.u - v.y * margin);
        return {a, (lower - v.s * a) / v.a, (upper + v.e * a) / v.u};
    }

    Moves moves(const Variables &v, int64_t g, int64_t i, int mode) const {
        auto [lower, upper] = asked(v, g, i, mode);
        return moves(v, lower, upper, (mode == TK_AFFINE ? rows_->affine : rows_->move)[i]);
    }

private:
    const tk_pass *pass_;
    const tk_interior *rows_;
    std::vector<Stretch> stretches_;
};

struct Nothing {
    void add(const Nothing &) {}
};

// The longest step. It starts a little above 1, so that a bound which a full step would just reach
// shortens it.
struct Longest {
    double step = 1.01;
    void add(const Longest &other) { step = std::min(step, other.step); }
    void keep(double x, double change) {
        if (change < 0)
            step = std::min(step, -x / change);
    }
};

struct Sums {
    double product = 0, loss = 0, total = 0, low = 0, high = 0;
    void add(const Sums &other) {
        product += other.product;
        loss += other.loss;
        total += other.total;
        low += other.low;
        high += other.high;
    }
};

// Writes the margins of a chunk to `out`.

template <class T>
void margins_of(const tk_pass *pass, const Chunk &c, const double *w, const double *padded,
                double *out) {
    int64_t d = pass->groups[0].dim;
    alignas(64) double m[BLOCK_ROWS];
    if (tusk_is_sparse(pass->groups[0].kind)) {
        for_sparse_blocks<T>(c, BLOCK_ROWS, [&](const SparseBlock<T> &rows) {
            margins(rows, w, w[d], m);
            out = std::copy_n(m, rows.n, out);
        });
        return;
    }
    for_dense_blocks<T>(c, d, block_rows<T>(d), [&](const auto &x, const double *, int n) {
        margins(x, n, d, padded, w[d], m);
        out = std::copy_n(m, n, out);
    });
}

int all_margins(const tk_pass *pass, const tk_interior *rows, const double *weights, double *out) {
    Numbered all(pass);
    bool sparse = tusk_is_sparse(pass->groups[0].kind);
    const PaddedWeights padded = sparse ? PaddedWeights() : PaddedWeights(pass, weights);
    return with_storage(pass, [&]<class T>(const T *) {
        parallel_for((int64_t)all.chunks.size(), pass->threads, [&](int64_t k) {
            const Chunk &c = all.chunks[k];
            if (!cancelled(pass->cancel_mark))
                margins_of<T>(pass, c, weights + c.group * (pass->groups[0].dim + 1),
                              padded.of(c.group), out + rows->offset[c.group] + all.first[k]);
        });
        return cancelled(pass->cancel_mark) ? TK_CANCELLED : TK_OK;
    });
}

// Sets their classes and weights.
void fill_rows(const tk_pass *pass, tk_interior *rows) {
    Numbered all(pass);
    const auto weights = step_weights(pass);
    for (int64_t g = 0; g < pass->n_groups; g++)
        rows->groups[g].n_rows = all.n_rows[g];
    parallel_for((int64_t)all.chunks.size(), pass->threads, [&](int64_t k) {
        const Chunk &c = all.chunks[k];
        double positive = Labels(pass, c.group).positive;
        bool numbers = rows->groups[c.group].tilt > 0;
        const StepWeights &given = weights[c.group];
        int64_t to = rows->offset[c.group] + all.first[k];
        const tusk_segment *s = c.segment;
        uint32_t at = c.offset;
        for (int64_t i = to; i < to + c.rows; i++, at++) {
            for (; at == s->n_rows; at = 0)
                s = s->next;
            double label = tusk_labels(s)[at];
            rows->sign[i] = numbers || label == positive ? 1 : -1;
            rows->slope[i] = numbers ? label : rows->sign[i]; // where the corner is
            if (rows->weight)
                rows->weight[i] = given.of(s)[at] * given.inverse();
        }
    });
}

void note_sums(const tk_pass *pass, tk_interior *rows, const Interior &inside) {
    auto sums = inside.over(Sums(), [&](Sums &sum, int64_t g, int64_t i, double cost) {
        Variables v = inside.at(i, cost);
        double tilt = rows->groups[g].tilt * cost, pull = v.a - tilt, under = v.e - v.s;
        sum.product += v.a * v.s + v.u * v.e;
        sum.loss += cost * std::max(under, 0.0) - tilt * under;
        sum.total += v.a;
        (pull > 0 ? sum.high : sum.low) += pull * under;
    });
    for (int64_t g = 0; g < pass->n_groups; g++) {
        tk_interior_group &group = rows->groups[g];
        double n = (double)std::max<int64_t>(group.n_rows, 1);
        group.product = sums[g].product / (2 * n);
        group.loss = sums[g].loss / n;
        group.total = sums[g].total / n;
        group.low = sums[g].low / n;
        group.high = sums[g].high / n;
    }
}

} // namespace
} // namespace tusk

int tk_interior_start(const tk_pass *pass, tk_interior *rows, const double *weights) {
    using namespace tusk;
    return code_of([&]() -> int {
        fill_rows(pass, rows);
        int code = all_margins(pass, rows, weights, rows->move);
        if (code != TK_OK)
            return code;
        Interior inside(pass, rows);
        inside.over(Nothing(), [&](Nothing &, int64_t g, int64_t i, double cost) {
            double under = rows->sign[i] * (rows->slope[i] - rows->move[i]);
            rows->alpha[i] = cost / 2;
            rows->excess[i] = std::max(under, 0.0) + rows->groups[g].beside;
            rows->slack[i] = rows->excess[i] - under;
        });
        note_sums(pass, rows, inside);
        return ending(pass->cancel_mark, 0);
    });
}

int tk_interior_slopes(const tk_pass *pass, tk_interior *rows, int mode) {
    using namespace tusk;
    return code_of([&] {
        Interior inside(pass, rows);
        inside.over(Nothing(), [&](Nothing &, int64_t g, int64_t i, double cost) {
            Variables v = inside.at(i, cost);
            double tilt = rows->groups[g].tilt, pull = v.a - tilt * cost;
            if (mode == TK_DUAL_LOW || mode == TK_DUAL_HIGH) {
                bool high = tilt > 0 ? pull > 0 : v.y > 0;
                rows->slope[i] = high == (mode == TK_DUAL_HIGH) ? -pull * v.y : 0.0;
                return;
            }
            auto [lower, upper] = inside.asked(v, g, i, mode);
            double h = Interior::curvature(v);
            rows->slope[i] = -(pull + h * (lower / v.a - upper / v.u)) * v.y;
            rows->curvature[i] = h;
        });
        return ending(pass->cancel_mark, 0);
    });
}

int tk_interior_gradient(const tk_pass *pass, const tk_interior *rows, double *out) {
    using namespace tusk;
    return code_of([&] {
        int64_t d = pass->groups[0].dim;
        Numbered all(pass);
        return with_storage(pass, [&]<class T>(const T *) {
            return sum_over_chunks(pass, all.chunks, d + 3, out, [&](const Chunk &c, double *acc) {
                const double *slope = rows->slope + rows->offset[c.group] + all.first_of(c);
                std::vector<double> g(padded(d), 0.0);
                alignas(64) double r[BLOCK_ROWS];
                auto take = [&](int n) {
                    std::fill(std::copy_n(slope, n, r), r + BLOCK_ROWS, 0.0);
                    slope += n;
                    acc[2 + d] += sum_block(r);
                };
                if (tusk_is_sparse(pass->groups[0].kind))
                    for_sparse_blocks<T>(c, BLOCK_ROWS, [&](const SparseBlock<T> &x) {
                        take(x.n);
                        add_gradient(x, r, g.data());
                    });
                else
                    for_dense_blocks<T>(c, d, block_rows<T>(d),
                                        [&](const auto &x, const double *, int n) {
                                            take(n);
                                            add_gradient(x, n, d, r, g.data());
                                        });
                acc[1] += (double)c.rows;
                for (int64_t k = 0; k < d; k++)
                    acc[2 + k] += g[k];
            });
        });
    });
}

int tk_interior_aim(const tk_pass *pass, tk_interior *rows, const double *weights, int mode) {
    using namespace tusk;
    return code_of([&]() -> int {
        double *out = mode == TK_AFFINE ? rows->affine : rows->move;
        int code = all_margins(pass, rows, weights, out);
        if (code != TK_OK)
            return code;
        Interior inside(pass, rows);
        auto longest = inside.over(Longest(), [&](Longest &most, int64_t g, int64_t i, double c) {
            Variables v = inside.at(i, c);
            Moves by = inside.moves(v, g, i, mode);
            most.keep(v.a, by.a);
            most.keep(v.u, -by.a);
            most.keep(v.s, by.s);
            most.keep(v.e, by.e);
        });
        for (int64_t g = 0; g < pass->n_groups; g++)
            rows->groups[g].step =
                mode == TK_AFFINE ? std::min(longest[g].step, 1.0) : longest[g].step;
        if (mode != TK_AFFINE)
            return ending(pass->cancel_mark, 0);
        auto after = inside.over(Sums(), [&](Sums &sum, int64_t g, int64_t i, double c) {
            Variables v = inside.at(i, c);
            Moves by = inside.moves(v, g, i, mode);
            double step = rows->groups[g].step;
            sum.product += (v.a + step * by.a) * (v.s + step * by.s) +
                           (v.u - step * by.a) * (v.e + step * by.e);
        });
        for (int64_t g = 0; g < pass->n_groups; g++)
            rows->groups[g].product = after[g].product / (2.0 * (double)rows->groups[g].n_rows);
        return ending(pass->cancel_mark, 0);
    });
}

int tk_interior_move(const tk_pass *pass, tk_interior *rows) {
    using namespace tusk;
    return code_of([&] {
        Interior inside(pass, rows);
        inside.over(Nothing(), [&](Nothing &, int64_t g, int64_t i, double cost) {
            Moves by = inside.moves(inside.at(i, cost), g, i, TK_CORRECTED);
            double step = rows->groups[g].step;
            rows->alpha[i] += step * by.a;
            rows->slack[i] += step * by.s;
            rows->excess[i] += step * by.e;
        });
        note_sums(pass, rows, inside);
        return ending(pass->cancel_mark, 0);
    });
}
