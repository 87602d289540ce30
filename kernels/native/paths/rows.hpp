// Some rows of a group for a fit: sums by feature over all rows, and single columns.
#pragma once

#include <memory>
#include <vector>

#include "../shared/charged.hpp"
#include "../shared/pool.hpp"
#include "../shared/rows.hpp"
#include "api.h"

namespace tusk {

// The features of n rows. Columns hold x' = x - origin, so that sums of squares stay exact if
// values are large relative to their spread. For sparse rows, features that some lack have origin
// 0.
class Features {
public:
    virtual ~Features() = default;
    int64_t n = 0, d = 0;

    // out[j] = sum_i t[i] x'[i][j], for all features or for those that are listed.
    virtual void correlate(const double *t, double *out) const = 0;
    virtual void correlate(const double *t, const std::vector<int32_t> &which,
                           double *out) const = 0;
    // Sums with the rows' weights a: x' and x'^2, (d,) each.
    virtual void moments(const double *a, double *mean, double *squares) const = 0;
    // Copies columns of x', n numbers each.
    virtual void copy(const std::vector<int32_t> &which, double *const *to) const = 0;
    // Copies all columns of some rows of x', concatenated; for dense rows only.
    virtual void copy_rows(int64_t, int64_t, double *) const {}
    // Row i's x.w for listed weights.
    virtual void margins(const std::vector<int32_t> &which, const std::vector<double> &w,
                         double *out) const = 0;
    virtual double origin(int64_t) const { return 0; }
    // The entries of a sparse column; n is 0 for dense ones.
    struct Entries {
        const int32_t *row;
        const double *value;
        int64_t n;
    };
    virtual Entries entries(int32_t) const { return {nullptr, nullptr, 0}; }
    virtual bool sparse() const { return false; }
};

// Rows for a fit or its evaluation.
struct Sample {
    std::unique_ptr<Features> features;
    std::vector<double> y, a; // labels or 0 and 1; weights, which add up to `weight`
    double weight = 0;
};

// Selection of rows by the roles of stretches in a fold. stretch: by row, NULL: all rows. role: by
// stretch, NULL: stretch `fold` is held out, and all others are trained on.
struct Taken {
    const int32_t *stretch = nullptr;
    const uint8_t *role = nullptr;
    int64_t fold = 0;
    tk_path_role wanted = TK_TRAINED_ON;
    const std::vector<int64_t> *order = nullptr; // order of all dense rows

    bool has(int64_t row) const {
        int32_t at = stretch[row];
        return wanted == (role         ? (tk_path_role)role[at]
                          : at == fold ? TK_HELD_OUT
                                       : TK_TRAINED_ON);
    }
};

// Some rows of a group. code: TK_OK, or the reason for a lack of memory.
Sample sample_of(const tk_pass *pass, int64_t group, const Taken &which, int threads,
                 tusk_memory *memory, int *code);

} // namespace tusk
