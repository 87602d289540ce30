// The rows of a group as inputs of a net, and conversion of its weights to the caller's units.
#pragma once

#include <vector>

#include "passes.hpp"

namespace tusk {

// z = (x - shift) * scale of each plain feature, and the same of labels that are numbers.
struct Units {
    std::vector<double> shift, scale;
    double label_shift = 0, label_scale = 1; // y = label_shift + label_scale * output of the net
    double weight = 1; // factor that scales the weights of the training rows to mean 1

    bool finite() const;
};

// The sum of the weights of a group's rows, their number if they have none.
double total_weight(const tusk_group &group);
// Both of these end early once cancelled.
Units units_of(const tusk_group &group, const Shape &shape, const tk_net &net,
               int64_t cancel_mark);

// The units for all parts, from the caller; d: features outside of tables.
Units units_of(const tk_net_visit &visit, int64_t d);

// Conversion of labels: numbers are centred and scaled, two classes become 0 and 1, several
// classes their index.
struct Labels {
    const tk_net *net;
    double positive;       // for two classes
    const double *classes; // for several, rising

    float of(double y, const Units &units) const;
};

// Destination of copied rows: x (n, shape.stride()), y (n,), and their weights (n,), if they have
// any and it is not NULL.
struct RowsTo {
    float *x, *y, *weight;
};
void copy_rows(const tusk_group &group, const Shape &shape, const Units &units,
               const Labels &labels, RowsTo to, int64_t cancel_mark);

// Converts weights from a net's layout and units to the caller's, and back.
void write_weights(const Shape &shape, const Units &units, const float *flat, double *out);
void read_weights(const Shape &shape, const Units &units, const double *given, float *flat);
void draw_weights(const Shape &shape, const tk_net &net, float *flat);
// Shifts vectors of tables to weighted mean 0 over the training rows, and biases so that no margin
// changes.
void centre_vectors(const Shape &shape, const Rows &rows, float *flat);
// The same from the weights of the rows of each level, (levels + 1,) table by table, the last one
// for rows without a level; total: of all rows.
void centre_vectors(const Shape &shape, const double *count, double total, float *flat);
int64_t counts_of(const Shape &shape); // the length of that array
// Means and deviations (2, plain) of the features outside of tables, and weights as above.
void moments_of(const tusk_group &group, const Shape &shape, int64_t cancel_mark, double *out);

} // namespace tusk
