#include "fit.hpp"

#include <cfloat>
#include <cmath>

#include "../vectors.hpp"

namespace tusk {

namespace {
constexpr double CONSTANT = 1e-12; // variance over mean square from which on a feature varies
constexpr double SAME = 1e-28;     // the same of labels
constexpr double FAR = 1e300;      // a penalty that holds all weights at 0
constexpr double ROUNDING = 1e-9;  // relative size below which a sum of terms has no digits
constexpr int64_t SYSTEMS_OF_WEIGHT = 3; // limit on systems per weight that are solved for a
                                         // penalty
} // namespace

bool ProductFit::fits(const Rules &rules, const tusk_group &group) {
    int64_t parts = std::max<int32_t>(rules.spec->folds, 1);
    bool apart = !rules.spec->folds || !rules.spec->role; // each part is held out separately
    return apart && !rules.logistic() && !rules.block && !tusk_is_sparse(group.kind) &&
           Sums::few(group.dim, parts) && group.n_rows >= group.dim;
}

ProductFit::ProductFit(const Sums &sums, int64_t without, const Rules &rules)
    : sums_(sums), rules_(rules), d_(sums.d), centre_(d_), scale_(d_, 1.0), product_(d_ * d_),
      with_y_(d_), w_(d_), free_(d_), active_(product_, with_y_, free_) {
    if (rules.free)
        free_.assign(rules.free, rules.free + d_);
    std::vector<double> total = sums.without(without);
    measure(total, without < 0);
    measure_products(total);
    covariances_.product = product_.data();
    covariances_.with_y = with_y_;
    covariances_.numbers = with_y_;
    covariances_.w = &w_;
    covariances_.k = d_;
    covariances_.y_squares = labels_;
    covariances_.curvature.resize(d_);
    for (int64_t j = 0; j < d_; j++)
        covariances_.curvature[j] = product_[j * d_ + j];
    null_ = 0.5 * labels_;
    if (rules.free)
        fit({FAR, 0, false}, START * rules.spec->tolerance * null_);
    null_ = 0.5 * covariances_.squares();
    bool explained = rules.free && is_explained(null_, 0.5 * labels_, *rules.spec);
    Penalty none{0, 0, !!rules.spec->positive};
    double shift = sums.shift[sums.labels()] + mean_;
    bool same = null_ <= SAME * shift * shift; // the labels are equal up to rounding
    same |= explained;
    double of_labels = labels_ + mean_ * mean_;
    for (int64_t j = 0; j < d_; j++) {
        double centre = centre_[j] * scale_[j], size = none.size(covariances_.numbers[j]);
        double squares = covariances_.curvature[j] + centre * centre;
        if (!free_[j] && !same && size > UNCORRELATED * std::sqrt(squares * of_labels))
            largest_ = std::max(largest_, size);
    }
}

// Computes centres and scales, and the variance of the labels. all: whether it is the fit of all
// rows.
void ProductFit::measure(const std::vector<double> &total, bool all) {
    int64_t k = sums_.k, ones = sums_.ones(), y = sums_.labels();
    double weight = total[ones * k + ones];
    for (int64_t j = 0; j < d_; j++) {
        double square = total[j * k + j] / weight, mean = total[j * k + ones] / weight;
        if (all)
            out_of_range_ |= !std::isfinite(square) || (square < DBL_MIN && sums_.varies(j));
        centre_[j] = rules_.intercept ? mean : 0;
        double variance = square - centre_[j] * centre_[j];
        double of_mean = square - mean * mean;
        bool usable = std::isfinite(square) && variance > CONSTANT * square;
        scale_[j] = usable ? 1 : 0;
        if (usable && rules_.spec->standardize)
            scale_[j] = of_mean > CONSTANT * square ? 1 / std::sqrt(of_mean) : 0;
    }
    mean_ = rules_.intercept ? total[y * k + ones] / weight : 0;
    labels_ = std::max(total[y * k + y] / weight - mean_ * mean_, 0.0);
}

void ProductFit::measure_products(const std::vector<double> &total) {
    int64_t k = sums_.k, y = sums_.labels();
    double weight = total[sums_.ones() * k + sums_.ones()];
    for (int64_t j = 0; j < d_; j++) {
        if (scale_[j] == 0)
            continue;
        for (int64_t l = 0; l < d_; l++)
            if (scale_[l] != 0)
                product_[j * d_ + l] =
                    (total[j * k + l] / weight - centre_[j] * centre_[l]) * scale_[j] * scale_[l];
        with_y_[j] = (total[j * k + y] / weight - centre_[j] * mean_) * scale_[j];
    }
}

// Solves systems of equations, and uses coordinate descent if these did not close the gap.
void ProductFit::fit(const Penalty &penalty, double tolerance) {
    int64_t most = rules_.spec->max_epochs;
    objective_ = gap_ = NAN;
    if (!std::isfinite(labels_))
        return;
    epochs_ = active_.run(penalty, std::min(most, SYSTEMS_OF_WEIGHT * (d_ + 1)), w_,
                          covariances_.numbers);
    Descent<Covariances> descent(covariances_, w_, free_, penalty, rules_.limits);
    epochs_ += descent.run(tolerance, std::max<int64_t>(most - epochs_, 0));
    GapSums sums = descent.gap_sums();
    gap_ = sums.gap(penalty);
    objective_ = sums.primal();
}

void ProductFit::solve(double lambda, tk_path_point &point) {
    const double *alpha = rules_.alpha;
    penalty_ = {lambda * alpha[0], lambda * alpha[1], !!rules_.spec->positive};
    fit(penalty_, rules_.spec->tolerance * null_);
    point = {lambda, objective_, gap_, out_of_range_ ? NAN : null_, 0, NAN, NAN, epochs_, 0};
    Weights found = weights();
    point.n_weights = (int64_t)found.feature.size();
    if (!rules_.intercept)
        return;
    point.intercept = intercept() + sums_.shift[sums_.labels()];
    for (size_t c = 0; c < found.feature.size(); c++)
        point.intercept -= found.value[c] * sums_.of_zero(found.feature[c]);
}

// The margin at x' = `Sums::shift`, minus the label's shift.
double ProductFit::intercept() const {
    double b = mean_;
    for (int64_t j = 0; j < d_; j++)
        if (w_[j] != 0)
            b -= w_[j] * scale_[j] * centre_[j];
    return b;
}

Weights ProductFit::weights() const {
    Weights out;
    for (int32_t j = 0; j < d_; j++)
        if (w_[j] != 0) {
            out.feature.push_back(j);
            out.value.push_back(w_[j] * scale_[j]);
        }
    return out;
}

double ProductFit::held_out(int64_t part) const {
    const double *sums = sums_.part(part);
    int64_t k = sums_.k, ones = sums_.ones();
    Weights found = weights();
    double weight = sums[ones * k + ones], b = intercept();
    std::vector<int32_t> at(found.feature);
    std::vector<double> by(found.value);
    for (double &one : by)
        one = -one;
    at.insert(at.end(), {(int32_t)ones, (int32_t)sums_.labels()});
    by.insert(by.end(), {-b, 1.0});
    double squares = 0, terms = 0;
    for (size_t c = 0; c < at.size(); c++) {
        const double *row = sums + at[c] * k;
        double inner = 0;
        for (size_t e = 0; e < at.size(); e++)
            inner += by[e] * row[at[e]];
        squares += by[c] * inner;
        terms += std::abs(by[c]) * std::sqrt(row[at[c]]);
    }
    if (!(squares > ROUNDING * terms * terms))
        squares = sums_.squares(part, found.feature, found.value, b);
    return squares / weight;
}

} // namespace tusk
