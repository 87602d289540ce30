#include "fit.hpp"

#include <cmath>

#include "../vectors.hpp"

namespace tusk {

namespace {
constexpr double COLLINEAR = 1e-10; // least fraction of a column's square that other columns do
                                    // not explain
constexpr double BEYOND = 1e-10;    // tolerance of a correlation above the penalty, relative
constexpr double ROUNDING = 1e-14;  // relative to correlations
} // namespace

ActiveSet::ActiveSet(const std::vector<double> &product, const std::vector<double> &with_y,
                     const std::vector<uint8_t> &free)
    : product_(product), with_y_(with_y), free_(free), d_((int64_t)with_y.size()),
      factor_(product.size()) {}

int64_t ActiveSet::run(const Penalty &penalty, int64_t most, std::vector<double> &w,
                       std::vector<double> &u) {
    begin(w);
    correlate(w, u);
    int64_t solved = 0;
    for (bool known = false; solved < most;) {
        if (known && !enter(penalty, w, u))
            return solved;
        if (!factorise(penalty.l2))
            break;
        solve(penalty);
        solved++;
        known = move(w);
        if (known)
            correlate(w, u);
    }
    correlate(w, u);
    return solved;
}

// Sets the members: the nonzero weights, and those without a penalty.
void ActiveSet::begin(const std::vector<double> &w) {
    largest_ = 0;
    for (double one : with_y_)
        largest_ = std::max(largest_, std::abs(one));
    for (int64_t place = (int64_t)member_.size(); place-- > 0;)
        if (w[member_[place]] == 0 && !free_[member_[place]])
            leave(place);
    std::vector<uint8_t> in(d_);
    for (int32_t j : member_)
        in[j] = 1;
    for (int64_t j = 0; j < d_; j++)
        if (!in[j] && product_[j * d_ + j] > 0 && (w[j] != 0 || free_[j])) {
            member_.push_back((int32_t)j);
            sign_.push_back(0);
        }
    for (size_t place = 0; place < member_.size(); place++) {
        int32_t j = member_[place];
        sign_[place] = free_[j] ? 0 : w[j] > 0 ? 1 : -1;
    }
}

// Updates Cholesky's factor of the members' products, row by row; known rows stay. Returns false
// if a column is a combination of earlier ones.
bool ActiveSet::factorise(double l2) {
    if (l2 != l2_)
        rows_ = 0;
    l2_ = l2;
    for (; rows_ < (int64_t)member_.size(); rows_++) {
        const double *products = product_.data() + member_[rows_] * d_;
        double *row = &factor(rows_, 0);
        for (int64_t c = 0; c < rows_; c++)
            row[c] = (products[member_[c]] - dot(row, &factor(c, 0), c)) / factor(c, c);
        double square = products[member_[rows_]];
        double left = square - dot(row, row, rows_) + l2;
        if (!(left > COLLINEAR * square))
            return false;
        row[rows_] = std::sqrt(left);
    }
    return true;
}

// The members' weights at which their derivatives are 0, for their signs.
void ActiveSet::solve(const Penalty &penalty) {
    int64_t m = (int64_t)member_.size();
    found_.resize(m);
    for (int64_t i = 0; i < m; i++) {
        double right = with_y_[member_[i]] - (sign_[i] != 0 ? penalty.l1 * sign_[i] : 0);
        found_[i] = (right - dot(&factor(i, 0), found_.data(), i)) / factor(i, i);
    }
    for (int64_t i = m; i-- > 0;) {
        found_[i] /= factor(i, i);
        add(found_.data(), -found_[i], &factor(i, 0), i);
    }
}

// Moves towards the solution until a weight is 0, which leaves. Returns whether none did.
bool ActiveSet::move(std::vector<double> &w) {
    double share = 1;
    int64_t first = -1;
    for (size_t i = 0; i < member_.size(); i++) {
        double from = w[member_[i]], to = found_[i];
        if (sign_[i] == 0 || to * sign_[i] > 0)
            continue;
        double until = from == to ? 0 : std::min(std::max(from / (from - to), 0.0), 1.0);
        if (first < 0 || until < share) {
            share = until;
            first = (int64_t)i;
        }
    }
    for (size_t i = 0; i < member_.size(); i++) {
        double &at = w[member_[i]];
        at = first < 0 ? found_[i] : at + share * (found_[i] - at);
    }
    if (first < 0)
        return true;
    w[member_[first]] = 0;
    leave(first);
    return false;
}

// Adds the weight whose correlation exceeds the penalty most. Returns whether there is one.
bool ActiveSet::enter(const Penalty &penalty, const std::vector<double> &w,
                      const std::vector<double> &u) {
    double most = penalty.l1 * (1 + BEYOND) + ROUNDING * largest_;
    int64_t found = -1;
    for (int64_t j = 0; j < d_; j++)
        if (w[j] == 0 && !free_[j] && penalty.size(u[j]) > most) {
            most = penalty.size(u[j]);
            found = j;
        }
    if (found < 0)
        return false;
    member_.push_back((int32_t)found);
    sign_.push_back(u[found] > 0 ? 1 : -1);
    return true;
}

void ActiveSet::leave(int64_t place) {
    member_.erase(member_.begin() + place);
    sign_.erase(sign_.begin() + place);
    rows_ = std::min(rows_, place);
}

void ActiveSet::correlate(const std::vector<double> &w, std::vector<double> &u) const {
    u = with_y_;
    for (int32_t j : member_)
        if (w[j] != 0)
            add(u.data(), -w[j], product_.data() + j * d_, d_);
}

} // namespace tusk
