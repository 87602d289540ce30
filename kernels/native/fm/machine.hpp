// The numbers of a factorization machine in training. A feature has a block of floats: its vector,
// padded to vectors of eight, then w, the sum of squared steps of w and that of the vector. Up to
// rank 8 a block is one cache line.
#pragma once

#include <cstdint>
#include <vector>

#include "../shared/charged.hpp"
#include "../shared/rows.hpp"
#include "api.h"

// The rows of a training in its units, in their original memory.

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

namespace tusk::fm {

using v8f = float __attribute__((vector_size(32)));
constexpr int WIDE = 8;            // floats of a vector
constexpr int LINE = 16;           // floats of a cache line
constexpr float FIRST_SQUARES = 1; // initial sums of squares, so that first steps are at most the
                                   // rate times the gradient

enum Behind { LINEAR, LINEAR_SQUARES, FACTOR_SQUARES, N_BEHIND };

class Machine {
public:
    Machine() = default;
    Machine(const tk_fm &fm, int64_t d)
        : d_(d), rank_(fm.rank), wides_((fm.rank + WIDE - 1) / WIDE),
          stride_((wides_ * WIDE + N_BEHIND + LINE - 1) / LINE * LINE) {}

    int take(tusk_memory *memory) { return floats_.take(memory, size()); }
    int64_t size() const { return d_ * stride_; }
    int64_t features() const { return d_; }
    int64_t stride() const { return stride_; }
    int rank() const { return rank_; }
    int wides() const { return wides_; }
    float *block(int64_t feature) const { return floats_.data() + feature * stride_; }
    float *behind(int64_t feature) const { return block(feature) + wides_ * WIDE; }

    float bias = 0, bias_squares = FIRST_SQUARES;

private:
    int64_t d_ = 0;
    int rank_ = 0, wides_ = 0;
    int64_t stride_ = 0;
    Charged<float> floats_;
};

// Draws the vectors of features that rows have; all other numbers are 0.
void draw(Machine &m, const tk_fm &fm, const Units &u, int threads);
// Writes the numbers in the caller's units, (d, 1 + rank). Returns the intercept.
double write(const Machine &m, const Units &u, int threads, double *numbers);

} // namespace tusk::fm
