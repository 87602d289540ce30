// The distinct rows of a group in the order of a hash of their content, with their weights.
#pragma once

#include <utility>
#include <vector>

#include "../shared/charged.hpp"
#include "../shared/rows.hpp"
#include "api.h"

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
