// Passes over rows: the nearest centre of each, and the sums that move centres.
#pragma once

#include "points.hpp"

namespace tusk::clusters {

constexpr int32_t NOWHERE = -1;

// Centres in the layout of passes: (k, d), and the same in panels of eight centres, feature by
// feature.
class Centres {
public:
    int64_t k = 0, d = 0;

    int take(tusk_memory *memory, int64_t most, int64_t features);
    double *of(int64_t j) const { return rows_ + j * d; }
    // Updates the panels of the first `count` centres, or of one of them.
    void lay_out(int64_t count, const Points &points);
    void lay_out_one(int64_t j, const Points &points);
    int64_t padded() const { return (k + 7) / 8 * 8; }
    const double *panel(int64_t j) const { return panels_ + j * d; } // j: a multiple of eight
    // The squared distance from 0 to each centre, (padded,); infinite beyond the last centre.
    const double *begun() const { return begun_; }

private:
    Charged<double> memory_;
    double *rows_ = nullptr, *panels_ = nullptr, *begun_ = nullptr;
};

// Results of a pass over rows.
struct Sums {
    double *moved = nullptr; // (k, d): sums of weight * (x - centre), of sparse rows of weight * x
    double *weight = nullptr; // (k,)
    double loss = 0;          // weighted sum of the squared distances
    int64_t changed = 0;      // number of rows whose nearest centre has changed
};

// Passes over some rows, with memory for their sums; chunks depend on the rows and centres alone.
class Passes {
public:
    Passes(const tk_pass &pass, const Points &points, int threads)
        : pass_(pass), points_(points), threads_(threads) {}

    int take(tusk_memory *memory, int64_t most_centres);
    // Finds the nearest centre of rows first .. first + n - 1, and their sums. A tk_code, which is
    // TK_OUT_OF_TIME at the deadline, unless the pass ignores it.
    int run(const Centres &centres, int64_t first, int64_t n, bool whole, Sums *sums);
    // The squared distances of the first n rows to the centres, (n, padded).
    int measure(const Centres &centres, int64_t n, double *out) const;
    // The squared distances of one row to the centres, (padded,).
    void measure_row(const Centres &centres, int64_t row, double *out) const;

    int32_t *nearest() const { return nearest_.data(); }  // (n,); NOWHERE before the first pass
    double *distance() const { return distance_.data(); } // (n,), squared

private:
    template <class T> void run_rows(const Centres &, int64_t first, int64_t n, Sums *) const;
    template <class T>
    void distances(const Centres &, int64_t first, int64_t n, double *out) const;
    template <class T> void add(const Centres &, int64_t row, int64_t centre, Sums *) const;

    const tk_pass &pass_;
    const Points &points_;
    int threads_;
    int64_t most_chunks_ = 1, width_ = 0;
    Charged<int32_t> nearest_;
    Charged<double> distance_, sums_;
};

} // namespace tusk::clusters
