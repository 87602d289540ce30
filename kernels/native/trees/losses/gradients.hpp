// Gradients and curvatures of all rows at their margins.
#pragma once

#include "../../shared/common/common_unit.hpp"
#include "../../shared/simd.hpp"
#include "../histogram.hpp"

namespace tusk {

// The sum of the weights of a group's rows, and the largest one. Rows without weights weigh 1.
// room: how many times as much a row may add to histograms, so that the sums still fit. unit: the
// `CommonUnit` of the weights. Histograms count weights in it, or in the largest weight where
// there is none, so that no split depends on the unit in which weights are given.
struct Weights {
    double total, most, room = 1, unit = 1;
    double scale() const { return unit > 0 ? unit : most > 0 ? most : 1; }
};
Weights weights_of(const tusk_group &group);
// Weights in `scale()`.
v8d scaled(const Weights &weights, v8d weight);

// The largest derivative and curvature of any row.
struct Widest {
    double derivative, curvature;
};

// The labels of one group. positive: the label that counts as 1, for TK_LOGISTIC. shape: as in
// tk_boost. widest: over more rows than these, or NULL: over these. narrower: the threshold of
// Huber's slopes, if it differs from that of the losses; 0: it does not. origin: subtracted from
// margins and numeric labels, so that their differences keep their digits far from zero.
struct Labels {
    const tusk_group *group;
    int32_t objective;
    double positive, shape;
    Weights weights;
    const Widest *widest = nullptr;
    double narrower = 0;
    double origin = 0;
};

// Whether exp of a margin is the predicted mean.
bool has_log_link(int32_t objective);
// The margin that minimises the mean loss, besides the offsets of the rows.
double best_constant(const Labels &labels);
// The weighted sum of the labels, for classes of 1 for the positive one, which determines the
// margin except for the quantile's loss; and the margin, from the sum over all rows and their
// weights.
double sum_of_labels(const Labels &labels);
double constant_of(int32_t objective, double sum, double total);
// The mean label, as the sum counts it, and the mean weight in the `scale()` of the weights. Both
// have the same bits in every unit of weights.
struct MeanRow {
    double label, weight;
};
MeanRow mean_row_of(const Labels &labels);

// The largest values over the rows at their margins.
Widest widest_of(const Labels &labels, const double *margins, int threads);
// What integers stand for in the sums over rows with these weights, as scaled.
Units units_for(const Widest &widest, const Weights &weights);

// Computes the loss of each row at its margin. Returns the weighted mean, and unless addends is
// NULL each row's addend, in units that leave room for the sums over all rows.
double take_losses(const Labels &labels, const double *margins, int threads, Addend *addends,
                   Units *units);

// The labels of the rows, concatenated. out: (n_rows,).
void copy_labels(const tusk_group &group, double *out);
// Adds the offsets of the rows, concatenated, to out: (n_rows,); nothing if they have none.
void add_offsets(const tusk_group &group, double *out);
// The weights of the rows, concatenated. out: (n_rows,).
void copy_weights(const tusk_group &group, double *out);

// The t-quantile of some numbers, which are reordered; between two of them it is linear (Hyndman
// and Fan, Sample quantiles in statistical packages, 1996, definition 7, as in LightGBM).
double quantile_of(double *numbers, int64_t n, double t);
// The threshold of Huber's loss by the scale of the residuals of the rows at their margins: 1.345
// times the median of their absolute values over that of a standard normal variable; if more than
// half of them are 0, by their mean.
double threshold_of(const Labels &labels, const double *margins);

// The quantile from the number of that rank, or just below it, and the next one.
double between(double low, double high, int64_t n, double t);

// The least of some weighted numbers up to which a fraction t of the weights lies, which minimises
// the weighted loss (Koenker, Quantile Regression, 2005, section 1.3). The numbers are reordered.
struct Weighted {
    double number, weight;
};
double weighted_quantile_of(Weighted *numbers, int64_t n, double t);

// Writes what n rows add, in units of scaled weights. Gradients are cut off to integers,
// curvatures are rounded.
void write_addends(v8d derivative, v8d curvature, const Units &units, int n, Addend *out);

} // namespace tusk
