// Paths of a batch of groups, and the losses of rows that folds hold out.
#include <algorithm>
#include <cmath>
#include <limits>

#include "fit.hpp"

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

    std::vector<double> grid(Fit &fit) const {
        std::vector<double> lambda(spec->length);
        double largest = spec->lambda ? 0 : fit.largest_lambda();
        if (!(largest > 0))
            largest = 1; // no feature is correlated with the labels
        for (int32_t k = 0; k < spec->length; k++) {
            double at = spec->length > 1 ? (double)k / (spec->length - 1) : 1;
            lambda[k] = spec->lambda ? spec->lambda[k] : largest * std::pow(spec->ratio, at);
        }
        return lambda;
    }

    int run() {
        int code;
        for (int32_t k = 0; k < spec->length; k++)
            points[k] = {MISSING, MISSING, MISSING, MISSING, MISSING, MISSING, MISSING, 0, 0};
        weights->resize(spec->length);
        Sample all = sample_of(pass, number, Taken{}, threads, memory, &code);
        if (code != TK_OK)
            return code;
        Fit fit(all, rules);
        std::vector<double> lambda = grid(fit);
        for (int32_t k = 0; k < spec->length && !rules.limits.over(); k++) {
            fit.solve(lambda[k], points[k]);
            (*weights)[k] = fit.weights();
        }
        if (cancelled(pass->cancel_mark))
            return TK_CANCELLED;
        return spec->folds ? judge(lambda) : TK_OK;
    }

    int judge(const std::vector<double> &lambda) const {
        std::vector<int32_t> fold = deal(pass, number, spec->folds, spec->seed);
        int32_t folds = (int32_t)std::min<int64_t>(spec->folds, (int64_t)fold.size());
        std::vector<Held> held(folds);
        std::vector<int> codes(folds);
        parallel_for(folds, threads, [&](int64_t f) {
            codes[f] = code_of_fit([&] { return hold_out(fold, (int32_t)f, lambda, held[f]); });
        });
        for (int code : codes)
            if (code != TK_OK)
                return code;
        for (int32_t k = 0; k < spec->length; k++)
            summarise(held, (size_t)k, points[k]);
        return cancelled(pass->cancel_mark) ? TK_CANCELLED : TK_OK;
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
        for (double one : lambda) {
            tk_path_point point;
            fit.solve(one, point);
            if (rules.limits.over())
                break;
            Weights w = fit.weights();
            held.features->margins(w.feature, w.value, margin.data());
            out.loss.push_back(loss_of(held, margin, point.intercept));
        }
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
                        &made->weights[g]};
            codes[g] = code_of_fit([&] { return group.run(); });
        });
        for (int code : codes)
            if (code != TK_OK)
                return code;
        *out = made.release();
        return (int)TK_OK;
    });
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
