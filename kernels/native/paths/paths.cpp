// Paths of a batch of groups, and the losses of rows that folds hold out.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>

#include "../shared/telling/progress.hpp"
#include "fit.hpp"
#include "products/fit.hpp"

struct tk_paths {
    std::vector<std::vector<tusk::Weights>> weights; // by group and penalty
};

namespace tusk {
namespace {

constexpr double MISSING = std::numeric_limits<double>::quiet_NaN();

// The losses of one fold's rows, by penalty.
struct Held {
    std::vector<double> loss; // mean; shorter than the path if the time was over
    double weight = 0;        // 0: there are none, or none to train on
};

struct Group {
    const tk_pass *pass;
    const tk_path_spec *spec;
    tusk_memory *memory;
    int64_t number;
    const int32_t *stretch; // by row, NULL if no row is held out
    int threads;
    Rules rules;
    tk_path_point *points;
    std::vector<Weights> *weights;
    const Progress &progress;

    // Reports a fitted penalty; a fit by sums of products reads no rows for it.
    template <class F> void fitted(const F &, const tk_path_point &point) const {
        constexpr bool reads = std::is_same_v<F, tusk::Fit>;
        progress.done(1, reads ? point.epochs * pass->groups[number].n_rows : 0);
    }

    std::vector<double> grid(double largest) const {
        std::vector<double> lambda(spec->length);
        if (!(largest > 0))
            largest = 1; // no feature is correlated with the labels
        for (int32_t k = 0; k < spec->length; k++) {
            double at = spec->length > 1 ? (double)k / (spec->length - 1) : 1;
            lambda[k] = spec->lambda ? spec->lambda[k] : largest * std::pow(spec->ratio, at);
        }
        return lambda;
    }

    int run() {
        for (int32_t k = 0; k < spec->length; k++)
            points[k] = {MISSING, MISSING, MISSING, MISSING, MISSING, MISSING, MISSING, 0, 0};
        weights->resize(spec->length);
        std::vector<int64_t> start = starts();
        bool empty = std::adjacent_find(start.begin(), start.end()) != start.end();
        return ProductFit::fits(rules, pass->groups[number]) && !empty ? run_products(start)
                                                                       : run_columns();
    }

    // Fits all rows; returns the penalties.
    template <class Fit> std::vector<double> follow(Fit &fit) {
        std::vector<double> lambda = grid(spec->lambda ? 0 : fit.largest_lambda());
        for (int32_t k = 0; k < spec->length && !rules.limits.over(); k++) {
            fit.solve(lambda[k], points[k]);
            (*weights)[k] = fit.weights();
            fitted(fit, points[k]);
        }
        return lambda;
    }

    int run_columns() {
        int code;
        Sample all = sample_of(pass, number, Taken{}, threads, memory, &code);
        if (code != TK_OK)
            return code;
        Fit fit(all, rules);
        std::vector<double> lambda = follow(fit);
        if (!spec->folds || cancelled(pass->cancel_mark))
            return ended();
        return judge([&](int64_t f, Held &out) { return hold_out(f, lambda, out); });
    }

    // Reads the rows once for all fits.
    int run_products(const std::vector<int64_t> &start) {
        int code;
        std::vector<int64_t> order;
        Taken taken;
        if (spec->folds) {
            order = by_fold(start);
            taken.order = &order;
        }
        Sample all = sample_of(pass, number, taken, threads, memory, &code);
        if (code != TK_OK)
            return code;
        Sums sums(all, start, rules.intercept, threads, memory, pass->cancel_mark);
        ProductFit fit(sums, -1, rules);
        std::vector<double> lambda = follow(fit);
        if (!spec->folds || cancelled(pass->cancel_mark))
            return ended();
        return judge([&](int64_t f, Held &out) {
            ProductFit one(sums, f, rules);
            const double *part = sums.part(f);
            out.weight = part[sums.ones() * sums.k + sums.ones()];
            held_out(one, lambda, out, [&](const tk_path_point &) { return one.held_out(f); });
            return (int)TK_OK;
        });
    }

    // Where the rows of each stretch begin.
    std::vector<int64_t> starts() const {
        int64_t n = pass->groups[number].n_rows;
        if (!spec->folds)
            return {0, n};
        std::vector<int64_t> start(spec->n_stretches + 1);
        for (int64_t i = 0; i < n; i++)
            start[stretch[i] + 1]++;
        std::partial_sum(start.begin(), start.end(), start.begin());
        return start;
    }

    std::vector<int64_t> by_fold(std::vector<int64_t> at) const {
        std::vector<int64_t> order(pass->groups[number].n_rows);
        for (size_t i = 0; i < order.size(); i++)
            order[at[stretch[i]]++] = (int64_t)i;
        return order;
    }

    int ended() const { return cancelled(pass->cancel_mark) ? TK_CANCELLED : TK_OK; }

    // one(f, held): fits all rows except those of a fold, and computes the losses of these.
    template <class One> int judge(One one) const {
        std::vector<Held> held(spec->folds);
        std::vector<int> codes(spec->folds);
        parallel_for(spec->folds, threads,
                     [&](int64_t f) { codes[f] = code_of_fit([&] { return one(f, held[f]); }); });
        for (int code : codes)
            if (code != TK_OK)
                return code;
        std::erase_if(held, [](const Held &fold) { return fold.weight == 0; });
        for (int32_t k = 0; !held.empty() && k < spec->length; k++)
            summarise(held, (size_t)k, points[k]);
        return ended();
    }

    // loss(point): loss of the held-out rows.
    template <class Fit, class Loss>
    void held_out(Fit &fit, const std::vector<double> &lambda, Held &out, Loss loss) const {
        for (double one : lambda) {
            if (rules.limits.over())
                return;
            tk_path_point point;
            fit.solve(one, point);
            if (rules.limits.over())
                return;
            out.loss.push_back(loss(point));
            fitted(fit, point);
        }
    }

    int hold_out(int64_t f, const std::vector<double> &lambda, Held &out) const {
        out.weight = 1; // until it is known
        if (rules.limits.over())
            return TK_OK;
        int code;
        Taken taken{stretch, spec->role ? spec->role + f * spec->n_stretches : nullptr, f};
        Sample in = sample_of(pass, number, taken, 1, memory, &code);
        if (code != TK_OK)
            return code;
        taken.wanted = TK_HELD_OUT;
        Sample held = sample_of(pass, number, taken, 1, memory, &code);
        if (code != TK_OK)
            return code;
        if (in.weight == 0 || held.weight == 0) {
            out.weight = 0;
            return TK_OK;
        }
        Fit fit(in, rules);
        std::vector<double> margin(held.y.size());
        out.weight = held.weight;
        held_out(fit, lambda, out, [&](const tk_path_point &point) {
            Weights w = fit.weights();
            held.features->margins(w.feature, w.value, margin.data());
            return loss_of(held, margin, point.intercept);
        });
        return TK_OK;
    }

    // The mean squared error, or the mean logistic loss.
    double loss_of(const Sample &held, const std::vector<double> &margin, double b) const {
        double sum = 0;
        for (size_t i = 0; i < margin.size(); i++) {
            double m = margin[i] + b, y = held.y[i];
            double of = rules.logistic()
                            ? std::max(m, 0.0) - y * m + std::log1p(std::exp(-std::abs(m)))
                            : (y - m) * (y - m);
            sum += held.a[i] * of;
        }
        return sum / held.weight;
    }

    // The mean over folds, weighted, and its standard error.
    void summarise(const std::vector<Held> &held, size_t k, tk_path_point &point) const {
        double weight = 0, mean = 0, squares = 0;
        for (const Held &one : held) {
            if (one.loss.size() <= k)
                return;
            weight += one.weight;
            mean += one.weight * one.loss[k];
        }
        mean /= weight;
        for (const Held &one : held)
            squares += one.weight / weight * (one.loss[k] - mean) * (one.loss[k] - mean);
        point.held = mean;
        point.held_error = std::sqrt(squares / std::max<double>((double)held.size() - 1, 1));
    }
};

} // namespace
} // namespace tusk

int tk_paths_new(const tk_pass *pass, const tk_path_spec *spec, tusk_memory *memory,
                 tk_path_point *points, tk_paths **out) {
    using namespace tusk;
    *out = nullptr;
    return code_of([&] {
        auto made = std::make_unique<tk_paths>();
        made->weights.resize(pass->n_groups);
        std::vector<int> codes(pass->n_groups);
        bool one = pass->n_groups == 1;
        Limits limits{pass->cancel_mark, pass->deadline};
        Progress progress(pass->n_groups * spec->length * (1 + spec->folds), pass->n_groups);
        std::vector<int64_t> first(pass->n_groups + 1, 0);
        for (int64_t g = 0; g < pass->n_groups; g++)
            first[g + 1] = first[g] + pass->groups[g].n_rows;
        parallel_for(pass->n_groups, one ? 1 : pass->threads, [&](int64_t g) {
            const uint8_t *free = spec->free ? spec->free + g * pass->groups[0].dim : nullptr;
            const int32_t *block = spec->block ? spec->block + g * pass->groups[0].dim : nullptr;
            Group group{pass,
                        spec,
                        memory,
                        g,
                        spec->stretch ? spec->stretch + first[g] : nullptr,
                        one ? pass->threads : 1,
                        Rules{spec, free, block, !!pass->fit_intercept, limits,
                              spec->alpha + 3 * g, memory},
                        points + g * spec->length,
                        &made->weights[g],
                        progress};
            codes[g] = code_of_fit([&] { return group.run(); });
        });
        for (int code : codes)
            if (code != TK_OK)
                return code;
        *out = made.release();
        return (int)TK_OK;
    });
}

int tk_paths_by_sums(const tk_pass *pass, const tk_path_spec *spec, int64_t group) {
    using namespace tusk;
    Rules rules{spec, spec->free, spec->block, !!pass->fit_intercept, {}, nullptr, nullptr};
    return ProductFit::fits(rules, pass->groups[group]);
}

void tk_paths_copy(const tk_paths *paths, int64_t group, int32_t *feature, double *weight) {
    for (const tusk::Weights &one : paths->weights[group]) {
        feature = std::copy(one.feature.begin(), one.feature.end(), feature);
        weight = std::copy(one.value.begin(), one.value.end(), weight);
    }
}

void tk_paths_free(tk_paths *paths) {
    delete paths;
}
