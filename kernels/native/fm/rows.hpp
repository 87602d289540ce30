// The rows of a training in its units, in their original memory.
#pragma once

#include <vector>

#include "../shared/charged.hpp"
#include "../shared/rows.hpp"
#include "api.h"

namespace tusk::fm {

// The units of a group's features and labels: z = (x - shift) * scale, y = shift + scale * label.
struct Units {
    Charged<double> scale;     // (d,); 0: no row has the feature, or it is constant
    std::vector<double> shift; // (d,); empty: 0
    double label_shift = 0, label_scale = 1;
    double weight = 1; // factor of the weights of rows
    bool ones = false; // whether all values of sparse rows are 1
    bool finite = true;
};

// Neighbouring rows of one segment, few enough to be cancelled soon.
struct Piece {
    const tusk_segment *segment;
    uint32_t first, n;
};

// The rows of a group: labels in their segments, values as floats.
struct Rows {
    tusk_group group{};
    std::vector<Piece> pieces;
    double positive = 1; // the label that counts as 1, for classes
    bool sparse() const { return tusk_is_sparse(group.kind); }
    tusk_shape shape() const { return tusk_shape_of(&group); }
    int64_t entries() const;
};

Rows rows_of(const tusk_group &group, double positive);

// Sorts the ids of each sparse row and adds up the values of repeated ones, in place: the first
// gets the sum and the others 0.
int join_repeated(const Rows &rows, int threads, int64_t cancel_mark, bool *ones);
// Computes the units of rows and held-out rows, whose repeated ids have been joined. Returns a
// tk_code.
int find_units(const Rows &rows, const Rows &held, const tk_fm &fm, tusk_memory *memory,
               int64_t cancel_mark, Units *units);
// Converts values to the units, as floats from the start of each segment's values on.
int put_into_units(const Rows &rows, const Units &units, int threads, int64_t cancel_mark);

} // namespace tusk::fm
