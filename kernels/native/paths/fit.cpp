// The path of one sample: working sets, and the gap over all features that ends a fit.
#include "fit.hpp"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <numeric>

namespace tusk {

namespace {
constexpr int64_t FIRST_WORK = 100;   // features of the first working set
constexpr int64_t MOST_LOOKS = 200;   // limit per penalty on passes over all features
constexpr double INNER = 0.3;         // fraction of the gap to which a working set is fitted
constexpr double CONSTANT = 1e-14;    // variance over mean square from which on a feature varies
constexpr double LEAST_SHARE = 1e-12; // weight of a class that a fold lacks
constexpr int64_t FEW = 16;           // a single column costs as much as this many in a row
constexpr int64_t MOST_CACHED = 1 << 27; // numbers of copied columns
} // namespace

Fit::Fit(const Sample &sample, const Rules &rules)
    : sample_(sample), x_(*sample.features), rules_(rules), n_(x_.n), d_(x_.d), a_(sample.a),
      centre_(d_), scale_(d_, 1.0), norm_(d_), blocks_(Blocks::made(rules.block, d_)), w_(d_),
      eta_(n_), t_(n_), u_(d_), in_work_(d_), cache_(rules.memory, n_), slot_(d_, -1),
      scaled_(rules.memory, n_) {
    for (double &one : a_)
        one /= sample.weight;
    measure();
    measure_blocks();
    start();
}

// Centres, scales and norms.
void Fit::measure() {
    std::vector<double> squares(d_);
    x_.moments(a_.data(), centre_.data(), squares.data());
    for (int64_t j = 0; j < d_; j++) {
        double mean = centre_[j], variance = squares[j] - mean * mean;
        bool underflow = squares[j] < DBL_MIN && (squares[j] > 0 || mean != 0);
        out_of_range_ |= underflow || !std::isfinite(squares[j]);
        bool constant = !(variance > CONSTANT * squares[j]);
        if (rules_.spec->standardize)
            scale_[j] = constant ? 0 : 1 / std::sqrt(variance);
        if (!rules_.intercept) {
            double origin = x_.origin(j);
            variance = squares[j] + 2 * origin * mean + origin * origin;
            centre_[j] = -origin;
            constant = !(variance > 0 && std::isfinite(variance));
        }
        norm_[j] = constant ? 0 : std::sqrt(variance) * scale_[j];
    }
}

void Fit::measure_blocks() {
    reach_ = norm_;
    spectrum_.resize(blocks_.members.size());
    for (size_t b = 0; b < blocks_.members.size(); b++) {
        double squares = 0;
        for (int32_t j : blocks_.members[b])
            squares += norm_[j] * norm_[j];
        for (int32_t j : blocks_.members[b])
            reach_[j] = std::sqrt(squares) / blocks_.root[b];
    }
}

// Fits the intercept and the weights without a penalty.
void Fit::start() {
    double mean = 0;
    for (int64_t i = 0; i < n_; i++)
        mean += a_[i] * sample_.y[i];
    mean = squared() ? mean : std::clamp(mean, LEAST_SHARE, 1 - LEAST_SHARE);
    double b = squared() ? mean : std::log(mean / (1 - mean));
    std::fill(eta_.begin(), eta_.end(), rules_.intercept ? b : 0.0);
    reset_work();
    double constant = null_ = loss(eta_);
    bool any_free = !work_.empty();
    if (any_free)
        inner(rules_.spec->tolerance * START * null_);
    refresh();
    null_ = loss(eta_);
    correlate_all();
    double rounding = CONSTANT * CONSTANT * mean * mean;
    bool same = squared() && null_ <= rounding;
    if (same) // tolerances are relative to it
        null_ = std::max(null_, rounding / rules_.spec->tolerance);
    bool explained = any_free && squared() && is_explained(null_, constant, *rules_.spec);
    if (same || explained)
        std::fill(u_.begin(), u_.end(), 0.0);
    Penalty none{0, 0, !!rules_.spec->positive};
    Sizes size = sizes(u_, none);
    double squares = 0; // of the derivatives, by the rows' weights
    for (int64_t i = 0; i < n_; i++)
        squares += a_[i] > 0 ? t_[i] * t_[i] / a_[i] : 0;
    double least = UNCORRELATED * std::sqrt(squares);
    for (int64_t j = 0; j < d_; j++)
        if (!is_free(j) && size[j] > least * (reach_[j] + std::abs(centre_[j] * scale_[j])))
            l1_before_ = std::max(l1_before_, size[j]);
}

double Fit::largest_lambda() {
    return l1_before_ / rules_.alpha[2];
}

void Fit::solve(double lambda, tk_path_point &point) {
    const double *alpha = rules_.alpha;
    double tolerance = rules_.spec->tolerance * null_, b = 0;
    bool first = penalty_.l1 == 0;
    penalty_ = {lambda * alpha[0], lambda * alpha[1], !!rules_.spec->positive};
    epochs_ = 0;
    descend(tolerance, first);
    for (int64_t i = 0; i < n_; i++)
        b += a_[i] * eta_[i];
    point = {lambda, objective_, gap_, out_of_range_ ? NAN : null_, 0, NAN, NAN, epochs_, 0};
    for (int32_t j : work_) {
        point.n_weights += w_[j] != 0;
        b -= w_[j] * scale_[j] * (centre_[j] + x_.origin(j));
    }
    point.intercept = rules_.intercept ? b : 0;
}

// Fits working sets until the gap over all features is small. first: whether it is the first
// penalty, where the gap is not known yet.
void Fit::descend(double tolerance, bool first) {
    double aim = INFINITY;
    reset_work();
    for (int64_t k = 0; k < MOST_LOOKS; k++) {
        if (k == 0 && first)
            look();
        aim = k == 0 && !first ? 0 : INNER * std::min(aim, gap_);
        inner(std::max(aim, 0.5 * tolerance));
        look();
        if (gap_ <= tolerance || epochs_ >= rules_.spec->max_epochs || rules_.limits.over())
            break;
        size_t before = work_.size();
        grow_work();
        if (work_.size() == before && k > 20)
            break; // rounding
    }
    l1_before_ = penalty_.l1;
}

Weights Fit::weights() const {
    Weights out;
    std::vector<int32_t> order(work_);
    std::sort(order.begin(), order.end());
    for (int32_t j : order)
        if (w_[j] != 0) {
            out.feature.push_back(j);
            out.value.push_back(w_[j] * scale_[j]);
        }
    return out;
}

// Resets the working set to the support, the weights without a penalty, and the features that the
// strong rule keeps.
void Fit::reset_work() {
    std::vector<int32_t> kept, more;
    double least = 2 * penalty_.l1 - l1_before_;
    Sizes size = sizes(u_, penalty_);
    for (int64_t j = 0; j < d_; j++) {
        in_work_[j] = 0;
        if (!(norm_[j] > 0))
            continue;
        if (w_[j] != 0 || is_free(j))
            kept.push_back((int32_t)j);
        else if (penalty_.l1 > 0 && size[j] >= least && size[j] > 0)
            more.push_back((int32_t)j);
    }
    size_t most = std::max<size_t>(FIRST_WORK, 2 * kept.size());
    if (more.size() > most) {
        std::nth_element(more.begin(), more.begin() + (int64_t)most, more.end(),
                         [&](int32_t a, int32_t b) { return size[a] > size[b]; });
        more.resize(most);
        std::sort(more.begin(), more.end());
    }
    work_.clear();
    add_to_work(kept);
    add_to_work(more);
}

// Adds the features nearest to violating the dual constraint, of those that may have a weight.
void Fit::grow_work() {
    double radius = std::sqrt(2 * gap_);
    std::vector<std::pair<double, int32_t>> near;
    size_t support = 0;
    Sizes size = sizes(u_, penalty_);
    for (int64_t j = 0; j < d_; j++) {
        support += w_[j] != 0;
        if (in_work_[j] || !(norm_[j] > 0))
            continue;
        double slack = (penalty_.l1 - factor_ * size[j]) / reach_[j];
        if (!squared() || slack <= radius)
            near.push_back({slack, (int32_t)j});
    }
    size_t most = std::max<size_t>(FIRST_WORK, 2 * support);
    if (near.size() > most) {
        std::nth_element(near.begin(), near.begin() + (int64_t)most, near.end());
        near.resize(most);
    }
    std::vector<int32_t> more;
    for (auto [slack, j] : near)
        more.push_back(j);
    std::sort(more.begin(), more.end());
    add_to_work(more);
}

// Adds features that vary, and those of their blocks, which get consecutive indices.
void Fit::add_to_work(const std::vector<int32_t> &features) {
    std::vector<int32_t> added;
    for (int32_t j : features) {
        if (in_work_[j])
            continue;
        int32_t b = blocks_.at(j);
        for (int32_t one : b < 0 ? std::vector<int32_t>{j} : blocks_.members[b])
            if (norm_[one] > 0) {
                in_work_[one] = 1;
                added.push_back(one);
            }
    }
    work_.insert(work_.end(), added.begin(), added.end());
    if (!x_.sparse())
        cache(added);
}

// Copies columns of z that are not copied yet; for the squared loss times the roots of the rows'
// weights.
void Fit::cache(const std::vector<int32_t> &features) {
    if ((int64_t)(cached_.size() + features.size()) * n_ > MOST_CACHED) {
        std::vector<int32_t> kept, places;
        for (int32_t j : cached_) {
            if (in_work_[j]) {
                places.push_back(slot_[j]);
                kept.push_back(j);
            }
            slot_[j] = -1;
        }
        for (size_t c = 0; c < kept.size(); c++)
            slot_[kept[c]] = (int32_t)c;
        cached_.swap(kept);
        cache_.keep(places);
    }
    std::vector<int32_t> fresh;
    std::vector<double *> to;
    for (int32_t j : features)
        if (slot_[j] < 0) {
            slot_[j] = (int32_t)cached_.size();
            cached_.push_back(j);
            fresh.push_back(j);
        }
    if (fresh.empty())
        return;
    cache_.grow(fresh.size());
    for (int32_t j : fresh)
        to.push_back(cache_[slot_[j]]);
    x_.copy(fresh, to.data());
    for (int32_t j : fresh)
        for (int64_t i = 0; i < n_; i++) {
            double &z = cache_[slot_[j]][i];
            z = (z - centre_[j]) * scale_[j] * (squared() ? std::sqrt(a_[i]) : 1.0);
        }
}

// A column of z, (n,).
void Fit::column(int32_t j, double *out) const {
    if (!x_.sparse()) {
        const double *kept = cache_[slot_[j]];
        for (int64_t i = 0; i < n_; i++)
            out[i] = kept[i] / (squared() ? std::sqrt(a_[i]) : 1.0);
        return;
    }
    std::fill_n(out, n_, -centre_[j] * scale_[j]);
    Features::Entries e = x_.entries(j);
    for (int64_t k = 0; k < e.n; k++)
        out[e.row[k]] += scale_[j] * e.value[k];
}

// u of all features by a pass over the rows.
void Fit::correlate_all() {
    x_.correlate(t_.data(), u_.data());
    double total = std::accumulate(t_.begin(), t_.end(), 0.0);
    for (int64_t j = 0; j < d_; j++)
        u_[j] = norm_[j] > 0 ? scale_[j] * (u_[j] - centre_[j] * total) : 0;
    seen_t_ = t_;
    seen_u_ = u_;
}

// Computes u for the features only that may violate the dual constraint, if these are few: u
// differs from its last value by at most ||z|| times the move of the derivatives.
bool Fit::correlate_near(std::vector<int32_t> &near) {
    double distance = 0;
    for (int64_t i = 0; i < n_; i++)
        distance += (t_[i] - seen_t_[i]) * (t_[i] - seen_t_[i]) / a_[i];
    distance = std::sqrt(distance) * (1 + 1e-9);
    double least = penalty_.l1 * (1 - 1e-9);
    Sizes size = sizes(seen_u_, penalty_);
    for (int64_t j = 0; j < d_; j++)
        if (in_work_[j] || size[j] + distance * reach_[j] >= least)
            near.push_back((int32_t)j);
    if ((int64_t)near.size() * (x_.sparse() ? 2 : FEW) > d_)
        return false;
    std::vector<double> found(near.size());
    x_.correlate(t_.data(), near, found.data());
    double total = std::accumulate(t_.begin(), t_.end(), 0.0);
    for (size_t c = 0; c < near.size(); c++) {
        int32_t j = near[c];
        u_[j] = norm_[j] > 0 ? scale_[j] * (found[c] - centre_[j] * total) : 0;
    }
    return true;
}

// The gap over all features.
void Fit::look() {
    refresh();
    std::vector<int32_t> near;
    bool same = t_ == seen_t_;
    if (same)
        u_ = seen_u_;
    bool few = !same && correlate_near(near);
    if (!few && !same)
        correlate_all();
    GapSums sums;
    BlockSums blocks(blocks_);
    auto add = [&](int64_t j) {
        int32_t block = blocks_.at(j);
        if (block >= 0)
            blocks.add(penalty_, block, w_[j], u_[j]);
        else if (!is_free(j) && norm_[j] > 0)
            sums.add(penalty_, w_[j], u_[j]);
        sums.product += w_[j] * u_[j];
    };
    if (few)
        for (int32_t j : near)
            add(j);
    else
        for (int64_t j = 0; j < d_; j++)
            add(j);
    blocks.into(penalty_, sums);
    gap_ = gap_of(sums, few);
}

} // namespace tusk
