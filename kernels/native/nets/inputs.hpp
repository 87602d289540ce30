// The rows of a group as a net reads them, and how its weights become those of the caller's units.
#pragma once

#include <vector>

#include "passes.hpp"

namespace tusk {

// z = (x - shift) * scale of each plain feature, and the same of labels that are numbers.
struct Units {
    std::vector<double> shift, scale;
    double label_shift = 0, label_scale = 1; // y = label_shift + label_scale * what the net says

    bool finite() const;
};

// Both of these end early once cancelled.
Units units_of(const tusk_group &group, const Shape &shape, const tk_net &net,
               int64_t cancel_mark);

// How labels become what the net reads: numbers centred and scaled, two classes 0 and 1, several
// classes their number.
struct Labels {
    const tk_net *net;
    double positive;       // of two classes
    const double *classes; // of several, rising

    float of(double y, const Units &units) const;
};

// Copies rows, one behind the other: x (n, shape.stride()), y (n,).
struct RowsTo {
    float *x, *y;
};
void copy_rows(const tusk_group &group, const Shape &shape, const Units &units,
               const Labels &labels, RowsTo to, int64_t cancel_mark);

// Weights in the caller's layout and units from those of a net, and back.
void write_weights(const Shape &shape, const Units &units, const float *flat, double *out);
void read_weights(const Shape &shape, const Units &units, const double *given, float *flat);
void draw_weights(const Shape &shape, const tk_net &net, float *flat);
// Moves vectors of tables so that their mean over the training rows is 0, and biases so that no
// margin changes.
void centre_vectors(const Shape &shape, const Rows &rows, float *flat);

} // namespace tusk
