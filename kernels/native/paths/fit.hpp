// The fit of one sample along falling penalties. Weights are those of z = scale (x - centre),
// where the centre is the weighted mean, or 0 without an intercept.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "../shared/charged.hpp"
#include "api.h"
#include "blocks/blocks.hpp"
#include "descent.hpp"
#include "rows.hpp"
#include "states.hpp"

namespace tusk {

// Copies of columns, charged to the account of the rows.

// Lack of memory, as an exception with a tk_code.
struct NoMemory {
    int code;
};

// Like code_of, with the reason if there is no memory for copied columns.
template <class Body> int code_of_fit(Body body) noexcept {
    try {
        return body();
    } catch (const NoMemory &none) {
        return none.code;
    } catch (...) {
        return TK_NO_MEMORY;
    }
}

// Columns of n numbers each. Throws NoMemory.
class Columns {
public:
    Columns(tusk_memory *memory, int64_t n) : memory_(memory), n_(n) {}

    size_t size() const { return at_.size(); }
    double *operator[](size_t place) const { return at_[place]; }

    // Adds columns, uninitialised.
    void grow(size_t more) {
        double *at = piece(more);
        for (size_t c = 0; c < more; c++)
            at_.push_back(at + c * n_);
    }
    // Keeps only the columns of these indices, in this order.
    void keep(const std::vector<int32_t> &places) {
        std::vector<std::unique_ptr<Charged<double>>> before;
        std::vector<double *> from;
        before.swap(pieces_);
        from.swap(at_);
        grow(places.size());
        for (size_t c = 0; c < places.size(); c++)
            std::memcpy(at_[c], from[places[c]], n_ * sizeof(double));
    }

private:
    tusk_memory *memory_;
    int64_t n_;
    std::vector<std::unique_ptr<Charged<double>>> pieces_;
    std::vector<double *> at_;

    double *piece(size_t columns) {
        auto made = std::make_unique<Charged<double>>();
        int code = made->take(memory_, columns * n_);
        if (code != TK_OK)
            throw NoMemory{code};
        pieces_.push_back(std::move(made));
        return pieces_.back()->data();
    }
};

// Inputs common to all fits of a group.
struct Rules {
    const tk_path_spec *spec;
    const uint8_t *free;  // (d,) or NULL
    const int32_t *block; // (d,) or NULL: equal numbers are penalised together
    bool intercept;
    Limits limits;
    const double *alpha; // with the options of tk_path_spec
    tusk_memory *memory; // the account of copied columns, or NULL
    bool logistic() const { return spec->loss == TK_PATH_LOGISTIC; }
};

constexpr double START = 1e-2;         // share of the tolerance for weights without a penalty
constexpr double EXACT = 1e-14;        // share of a loss that rounding leaves
constexpr double UNCORRELATED = 1e-14; // correlation up to which a feature has none but rounding's

// Whether features without a penalty explain the labels up to the tolerance of their own fit. Then
// nothing is left for others, and the loss without them becomes one to which tolerances can be
// relative. constant: the loss of the best constant.
inline bool is_explained(double &loss, double constant, const tk_path_spec &spec) {
    if (loss > std::max(START * spec.tolerance, EXACT) * constant)
        return false;
    loss = std::max(loss, EXACT / spec.tolerance * constant);
    return true;
}

// Nonzero weights, in the units of the caller's features.
struct Weights {
    std::vector<int32_t> feature;
    std::vector<double> value;
};

class Fit {
public:
    Fit(const Sample &sample, const Rules &rules);

    // The least lambda at which all penalised weights are 0.
    double largest_lambda();
    // Fits the next lambda, starting from the weights of the previous one. Fills the point, except
    // for held-out losses.
    void solve(double lambda, tk_path_point &point);
    Weights weights() const;

private:
    const Sample &sample_;
    const Features &x_;
    const Rules &rules_;
    int64_t n_, d_;
    bool out_of_range_ = false; // squares of a feature overflow or underflow: its weight is 0
    std::vector<double> a_;     // rows' weights, which add up to 1
    std::vector<double> centre_, scale_, norm_; // (d,); norm: of z, 0 where it is constant
    Blocks blocks_;
    std::vector<double> reach_; // (d,) largest change of `Sizes` of u with t, relative to its norm
    std::vector<std::shared_ptr<const Spectrum>> spectrum_; // by block, for the squared loss
    std::vector<double> w_;                                 // (d,)
    std::vector<double> eta_, t_;         // (n,) margins; minus the derivatives of the loss
    std::vector<double> u_;               // (d,) z.t, as far as it is known
    std::vector<double> seen_t_, seen_u_; // at the last pass over all features
    std::vector<int32_t> work_;           // the working set
    std::vector<uint8_t> in_work_;        // (d,)
    Columns cache_;                       // copied columns
    std::vector<int32_t> slot_, cached_;  // (d,) their indices, or -1; their features
    Penalty penalty_{};
    double null_ = 0, l1_before_ = 0;
    double objective_ = 0, gap_ = 0, factor_ = 1;
    int64_t epochs_ = 0;

    bool is_free(int64_t j) const { return rules_.free && rules_.free[j]; }
    bool squared() const { return !rules_.logistic(); }
    // The quantities that must be at most l1 in the dual, by feature; equal for all members of a
    // block.
    struct Sizes {
        const Penalty &penalty;
        const Blocks &blocks;
        const std::vector<double> &u;
        std::vector<double> of_block;
        double operator[](int64_t j) const {
            int32_t b = blocks.at(j);
            return b < 0 ? penalty.size(u[j]) : of_block[b];
        }
    };
    Sizes sizes(const std::vector<double> &u, const Penalty &penalty) const {
        return {penalty, blocks_, u, blocks_.sizes(u)};
    }
    template <class State> std::vector<Unit> units(State &state);
    void measure_blocks();
    void start();
    void measure();
    void add_to_work(const std::vector<int32_t> &features);
    void reset_work();
    void grow_work();
    void cache(const std::vector<int32_t> &features);
    void column(int32_t j, double *out) const;
    double loss(const std::vector<double> &eta) const;
    double penalty() const;
    void inner(double tolerance);
    template <class State> void step(double tolerance);
    void fill(Residuals &state, const std::vector<double> &h, const std::vector<double> &r);
    void fill(SparseResiduals &state, const std::vector<double> &h, const std::vector<double> &r);
    void refresh();
    void derivatives();
    void project();
    double gap_of(GapSums sums, bool capped);
    void look_at_work();
    void look();
    void correlate_all();
    bool correlate_near(std::vector<int32_t> &near);

    void descend(double tolerance, bool first);

    Columns scaled_;                       // columns of a quadratic approximation
    std::vector<double> curvature_of_row_; // its weights
};

} // namespace tusk
