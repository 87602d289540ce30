// Passes over rows: the nearest centre of each, and the sums that move centres.
#pragma once

#include <utility>
#include <vector>

#include "../shared/charged.hpp"
#include "../shared/rows.hpp"
#include "api.h"

// The distinct rows of a group in the order of a hash of their content, with their weights.

namespace tusk::clusters {

// Units of the features in training: z = (x - shift) * scale, if the training has units.
struct Units {
    Charged<double> numbers; // (2, d): shift and scale
    double *shift = nullptr, *scale = nullptr;
};

// A feature of a row, and its nonzero value.
using Entry = std::pair<int32_t, double>;

class Points {
public:
    int64_t n = 0, d = 0, entries = 0;
    bool sparse = false, f64 = false;
    double largest = 0; // largest absolute value
    double unit = 1;    // of the weights, so that sums of them are exact

    // Copies the rows of a group. A tk_code.
    int read(const tk_pass &pass, const tusk_group &group, uint64_t seed, int threads,
             tusk_memory *memory);
    // Converts rows to units in which features have the deviation 1, and returns these units.
    int standardize(Units *units, tusk_memory *memory);

    const double *weight() const { return weight_.data(); } // (n,), in `unit`
    template <class T> const T *values() const { return (const T *)values_.data(); }
    // For sparse rows, whose ids rise: offsets, (n + 1,), and ids.
    const int64_t *start() const { return start_.data(); }
    const int32_t *id() const { return id_.data(); }
    // (d,): 1 for a feature that some sparse rows lack, else 0.
    const double *lacking() const { return lacking_.data(); }

private:
    struct Row;
    void to_common_unit(std::vector<Row> &rows);
    int copy(const tusk_group &group, const std::vector<Row> &rows, int threads, int64_t mark,
             tusk_memory *memory);
    int take_room(const tusk_group &group, const std::vector<Row> &rows, tusk_memory *memory);
    double put_row(int64_t i, const std::vector<Entry> &row);
    int mark_lacking(tusk_memory *memory);

    Charged<char> values_;
    Charged<double> weight_, lacking_;
    Charged<int64_t> start_;
    Charged<int32_t> id_;
};

} // namespace tusk::clusters

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
