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
    std::vector<double> loss; // mean; shorter than the path where its time was over
    double weight = 0;
};

// As code_of, with the reason where copied columns find no memory.
template <class Body> int code_of_fit(Body body) noexcept {
    try {
        return body();
    } catch (const NoMemory &none) {
        return none.code;
    } catch (...) {
        return TK_NO_MEMORY;
    }
}

struct Group {
    const tk_pass *pass;
    const tk_path_spec *spec;
    tusk_memory *memory;
    int64_t number;
    int threads;
    Rules rules;
    tk_path_point *points;
    std::vector<Weights> *weights;
    const Progress &progress;

    // A penalty is fitted; a fit by sums of products reads no rows for it.
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
        return ProductFit::fits(rules, pass->groups[number]) ? run_products() : run_columns();
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
        std::vector<int32_t> fold = deal(pass, number, spec->folds, spec->seed);
        int64_t folds = std::min<int64_t>(spec->folds, (int64_t)fold.size());
        return judge(
            folds, [&](int64_t f, Held &out) { return hold_out(fold, (int32_t)f, lambda, out); });
    }

    // Reads the rows once for all fits.
    int run_products() {
        int code;
        int64_t n = pass->groups[number].n_rows, folds = std::min<int64_t>(spec->folds, n);
        std::vector<int64_t> start{0, n}, order;
        Taken taken;
        if (folds) {
            std::vector<int32_t> fold = deal(pass, number, spec->folds, spec->seed);
            start = starts(fold, folds);
            order = by_fold(fold, start);
            taken.order = &order;
        }
        Sample all = sample_of(pass, number, taken, threads, memory, &code);
        if (code != TK_OK)
            return code;
        Sums sums(all, start, rules.intercept, threads, memory, pass->cancel_mark);
        ProductFit fit(sums, -1, rules);
        std::vector<double> lambda = follow(fit);
        if (folds < 2 || cancelled(pass->cancel_mark))
            return ended();
        return judge(folds, [&](int64_t f, Held &out) {
            ProductFit one(sums, f, rules);
            const double *part = sums.part(f);
            out.weight = part[sums.ones() * sums.k + sums.ones()];
            held_out(one, lambda, out, [&](const tk_path_point &) { return one.held_out(f); });
            return (int)TK_OK;
        });
    }

    // Where the rows of each fold begin.
    static std::vector<int64_t> starts(const std::vector<int32_t> &fold, int64_t folds) {
        std::vector<int64_t> start(folds + 1);
        for (int32_t f : fold)
            start[f + 1]++;
        std::partial_sum(start.begin(), start.end(), start.begin());
        return start;
    }

    static std::vector<int64_t> by_fold(const std::vector<int32_t> &fold,
                                        std::vector<int64_t> at) {
        std::vector<int64_t> order(fold.size());
        for (size_t i = 0; i < fold.size(); i++)
            order[at[fold[i]]++] = (int64_t)i;
        return order;
    }

    int ended() const { return cancelled(pass->cancel_mark) ? TK_CANCELLED : TK_OK; }

    // one(f, held): fits all rows but those of a fold, and finds the losses of these.
    template <class One> int judge(int64_t folds, One one) const {
        std::vector<Held> held(folds);
        std::vector<int> codes(folds);
        parallel_for(folds, threads,
                     [&](int64_t f) { codes[f] = code_of_fit([&] { return one(f, held[f]); }); });
        for (int code : codes)
            if (code != TK_OK)
                return code;
        for (int32_t k = 0; k < spec->length; k++)
            summarise(held, (size_t)k, points[k]);
        return ended();
    }

    // loss(point): of the rows that are held out.
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

    int hold_out(const std::vector<int32_t> &fold, int32_t f, const std::vector<double> &lambda,
                 Held &out) const {
        if (rules.limits.over())
            return TK_OK;
        int code;
        Sample in = sample_of(pass, number, Taken{&fold, f, false}, 1, memory, &code);
        if (code != TK_OK || in.y.empty())
            return code;
        Sample held = sample_of(pass, number, Taken{&fold, f, true}, 1, memory, &code);
        if (code != TK_OK)
            return code;
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

    // The mean over folds, which count by their weights, and its standard error.
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
        parallel_for(pass->n_groups, one ? 1 : pass->threads, [&](int64_t g) {
            const uint8_t *free = spec->free ? spec->free + g * pass->groups[0].dim : nullptr;
            const int32_t *block = spec->block ? spec->block + g * pass->groups[0].dim : nullptr;
            Group group{pass,
                        spec,
                        memory,
                        g,
                        one ? pass->threads : 1,
                        Rules{spec, free, block, !!pass->fit_intercept, limits, memory},
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
    Rules rules{spec, spec->free, spec->block, !!pass->fit_intercept, {}, nullptr};
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
