// The fit of a working set, by quadratic approximations of the loss, and the losses' values,
// derivatives and duals.
#include <algorithm>
#include <cmath>

#include "fit.hpp"
#include "logistic.hpp"

namespace tusk {

namespace {
constexpr int MOST_STEPS = 100;
constexpr int MOST_HALVINGS = 30;
constexpr double STEP_SHARE = 0.1; // fraction of the gap to which an approximation is solved

// Solves m x = v for a positive definite m (k, k), which it overwrites; x replaces v.
void solve_in_place(std::vector<double> &m, std::vector<double> &v) {
    size_t k = v.size();
    for (size_t a = 0; a < k; a++) {
        double pivot = m[a * k + a];
        for (size_t b = a + 1; b < k; b++) {
            double f = pivot > 0 ? m[b * k + a] / pivot : 0;
            for (size_t c = a; c < k; c++)
                m[b * k + c] -= f * m[a * k + c];
            v[b] -= f * v[a];
        }
    }
    for (size_t a = k; a-- > 0;) {
        for (size_t c = a + 1; c < k; c++)
            v[a] -= m[a * k + c] * v[c];
        v[a] = m[a * k + a] > 0 ? v[a] / m[a * k + a] : 0;
    }
}
} // namespace

double Fit::loss(const std::vector<double> &eta) const {
    double sum = 0;
    for (int64_t i = 0; i < n_; i++) {
        double y = sample_.y[i], m = eta[i];
        sum += a_[i] * (squared() ? 0.5 * (y - m) * (y - m) : log1p_exp(m) - y * m);
    }
    return sum;
}

double Fit::penalty() const {
    GapSums sums;
    BlockSums blocks(blocks_);
    for (int32_t j : work_)
        if (blocks_.at(j) >= 0)
            blocks.add(penalty_, blocks_.at(j), w_[j], 0);
        else if (!is_free(j))
            sums.add(penalty_, w_[j], 0);
    blocks.into(penalty_, sums);
    return sums.penalty;
}

// Recomputes margins from the weights, which removes accumulated rounding.
void Fit::refresh() {
    double b = 0;
    for (int64_t i = 0; i < n_; i++)
        b += a_[i] * (squared() ? sample_.y[i] : eta_[i]);
    std::vector<double> eta(n_);
    for (int32_t j : work_) {
        double w = w_[j] * scale_[j];
        if (w == 0)
            continue;
        if (!x_.sparse()) {
            add(eta.data(), w_[j], cache_[slot_[j]], n_);
            continue;
        }
        Features::Entries e = x_.entries(j);
        for (int64_t k = 0; k < e.n; k++)
            eta[e.row[k]] += w * e.value[k];
        for (int64_t i = 0; rules_.intercept && i < n_; i++)
            eta[i] -= w * centre_[j];
    }
    for (int64_t i = 0; i < n_; i++) {
        eta[i] /= squared() && !x_.sparse() ? std::sqrt(a_[i]) : 1;
        eta[i] += rules_.intercept ? b : 0;
    }
    eta_.swap(eta);
    derivatives();
    project();
}

// Computes t, and the curvatures of the rows' losses.
void Fit::derivatives() {
    curvature_of_row_.resize(n_);
    for (int64_t i = 0; i < n_; i++) {
        double p = squared() ? eta_[i] : probability(eta_[i]);
        t_[i] = a_[i] * (sample_.y[i] - p);
        curvature_of_row_[i] = a_[i] * (squared() ? 1 : std::max(p * (1 - p), LEAST_CURVATURE));
    }
}

// Makes t orthogonal to the intercept and to the features without a penalty, as the dual requires,
// in the metric of the rows' curvatures. It changes little, since these are fitted.
void Fit::project() {
    std::vector<std::vector<double>> columns;
    if (rules_.intercept)
        columns.emplace_back(n_, 1.0);
    for (int32_t j : work_)
        if (is_free(j)) {
            columns.emplace_back(n_);
            column(j, columns.back().data());
        }
    size_t k = columns.size();
    std::vector<double> m(k * k), v(k), scaled(n_);
    for (size_t a = 0; a < k; a++) {
        for (int64_t i = 0; i < n_; i++)
            scaled[i] = columns[a][i] * curvature_of_row_[i];
        v[a] = dot(columns[a].data(), t_.data(), n_);
        for (size_t b = 0; b < k; b++)
            m[b * k + a] = dot(columns[b].data(), scaled.data(), n_);
    }
    solve_in_place(m, v);
    for (size_t a = 0; a < k; a++)
        for (int64_t i = 0; i < n_; i++)
            t_[i] -= v[a] * columns[a][i] * curvature_of_row_[i];
}

// The gap between the objective at the weights and the dual at c t, for the feasible c. capped:
// whether only features that might violate the constraint for c = 1 were evaluated.
double Fit::gap_of(GapSums sums, bool capped) {
    double value = loss(eta_);
    objective_ = value + sums.penalty;
    if (squared()) {
        sums.squares = 0;
        for (int64_t i = 0; i < n_; i++) {
            sums.squares += t_[i] * t_[i] / a_[i];
            sums.product += t_[i] * (sample_.y[i] - eta_[i]);
        }
        factor_ = sums.factor(penalty_);
        if (capped)
            factor_ = std::min(factor_, 1.0);
        double dual =
            factor_ * sums.product - 0.5 * factor_ * factor_ * (sums.squares + sums.ridge);
        return std::max(objective_ - dual, 0.0);
    }
    double c = factor_ = sums.most > penalty_.l1 ? penalty_.l1 / sums.most : 1.0;
    double dual = -0.5 * c * c * sums.ridge;
    for (int64_t i = 0; i < n_; i++) {
        double q = sample_.y[i] - c * t_[i] / a_[i];
        if (q < -DUAL_ROUNDING || q > 1 + DUAL_ROUNDING)
            return std::max(objective_, gap_); // the projection has left the dual's domain
        dual += a_[i] * entropy(q);
    }
    return std::max(objective_ - dual, 0.0);
}

// The gap of the problem restricted to the working set.
void Fit::look_at_work() {
    derivatives();
    project();
    GapSums sums;
    BlockSums blocks(blocks_);
    double total = 0;
    for (int64_t i = 0; i < n_; i++)
        total += t_[i];
    for (int32_t j : work_) {
        double u = 0;
        if (x_.sparse()) {
            Features::Entries e = x_.entries(j);
            for (int64_t k = 0; k < e.n; k++)
                u += e.value[k] * t_[e.row[k]];
            u = scale_[j] * (u - centre_[j] * total);
        } else {
            u = dot(cache_[slot_[j]], t_.data(), n_);
        }
        sums.product += w_[j] * u;
        if (blocks_.at(j) >= 0)
            blocks.add(penalty_, blocks_.at(j), w_[j], u);
        else if (!is_free(j))
            sums.add(penalty_, w_[j], u);
    }
    blocks.into(penalty_, sums);
    gap_ = gap_of(sums, false);
}

// Fits the working set up to a gap.
void Fit::inner(double tolerance) {
    if (!squared())
        look_at_work();
    double aim = squared() ? tolerance : gap_, least = 0.1 * tolerance;
    for (int k = 0; k < MOST_STEPS; k++) {
        double before = gap_; // an infeasible dual point gives no information on a step
        if (!squared())
            aim = std::max(STEP_SHARE * std::min(aim, gap_), least);
        if (x_.sparse())
            step<SparseResiduals>(aim);
        else
            step<Residuals>(aim);
        if (squared() || rules_.limits.over() || epochs_ >= rules_.spec->max_epochs)
            break;
        look_at_work();
        if (gap_ <= tolerance || (k > 20 && gap_ >= before))
            break;
        if (gap_ >= before)
            least *= STEP_SHARE; // an approximation's gap may be far less than this one
    }
}

void Fit::fill(Residuals &state, const std::vector<double> &h, const std::vector<double> &r) {
    size_t k = work_.size();
    state.n = n_;
    state.column.resize(k);
    state.curvature.resize(k);
    state.numbers.resize(n_);
    double total = 0, mean = 0;
    for (int64_t i = 0; i < n_; i++) {
        total += h[i];
        mean += h[i] * r[i];
    }
    mean = rules_.intercept ? mean / total : 0;
    std::vector<double> root(n_);
    for (int64_t i = 0; i < n_; i++) {
        root[i] = std::sqrt(h[i]);
        state.numbers[i] = root[i] * (r[i] - mean);
    }
    if (!squared() && scaled_.size() < k)
        scaled_.grow(k - scaled_.size());
    for (size_t c = 0; c < k; c++) {
        const double *z = cache_[slot_[work_[c]]];
        if (!squared()) {
            double centre = rules_.intercept ? dot(z, h.data(), n_) / total : 0;
            for (int64_t i = 0; i < n_; i++)
                scaled_[c][i] = root[i] * (z[i] - centre);
            z = scaled_[c];
        }
        state.column[c] = z;
        double norm = norm_[work_[c]];
        state.curvature[c] = squared() ? norm * norm : dot(z, z, n_);
    }
}

void Fit::fill(SparseResiduals &state, const std::vector<double> &h,
               const std::vector<double> &r) {
    size_t k = work_.size();
    state.n = n_;
    state.weight = h.data();
    state.column.resize(k);
    state.curvature.resize(k);
    state.numbers.assign(r.begin(), r.end());
    state.numbers.push_back(0);
    state.total = 0;
    double mean = 0;
    for (int64_t i = 0; i < n_; i++) {
        state.total += h[i];
        mean += h[i] * r[i];
    }
    if (rules_.intercept)
        state.numbers[n_] = -mean / state.total;
    for (size_t c = 0; c < k; c++) {
        Features::Entries e = x_.entries(work_[c]);
        double sum = 0, squares = 0, scale = scale_[work_[c]];
        for (int64_t i = 0; i < e.n; i++) {
            sum += h[e.row[i]] * e.value[i];
            squares += h[e.row[i]] * e.value[i] * e.value[i];
        }
        double centre = rules_.intercept ? sum / state.total : 0;
        state.column[c] = {e.row, e.value, e.n, scale, centre};
        state.curvature[c] = scale * scale * (squares - centre * centre * state.total);
    }
}

// The blocks of the working set, with the spectra of a state's columns.
template <class State> std::vector<Unit> Fit::units(State &state) {
    std::vector<Unit> out;
    for (size_t c = 0; c < work_.size() && !blocks_.empty(); c++) {
        int32_t b = blocks_.at(work_[c]);
        if (b < 0)
            continue;
        size_t count = 1;
        while (c + count < work_.size() && blocks_.at(work_[c + count]) == b)
            count++;
        std::shared_ptr<const Spectrum> spectrum = squared() ? spectrum_[b] : nullptr;
        if (!spectrum)
            spectrum = std::make_shared<Spectrum>(spectrum_of(state, c, count));
        if (squared())
            spectrum_[b] = spectrum;
        out.push_back({c, count, blocks_.root[b], std::move(spectrum)});
        c += count - 1;
    }
    return out;
}

// The residual of row i in a state.
static double residual(const Residuals &s, const std::vector<double> &h, int64_t i) {
    return s.numbers[i] / std::sqrt(h[i]);
}
static double residual(const SparseResiduals &s, const std::vector<double> &, int64_t i) {
    return s.numbers[i] + s.numbers[s.n];
}

// Solves the quadratic approximation of the loss at the margins, and moves towards its solution as
// far as the objective falls.
template <class State> void Fit::step(double tolerance) {
    derivatives();
    std::vector<double> h(curvature_of_row_), r(n_), w(work_.size());
    std::vector<uint8_t> free(work_.size());
    for (int64_t i = 0; i < n_; i++)
        r[i] = t_[i] / h[i];
    for (size_t c = 0; c < work_.size(); c++) {
        w[c] = w_[work_[c]];
        free[c] = is_free(work_[c]);
    }
    State state;
    fill(state, h, r);
    Descent<State> descent(state, w, free, penalty_, rules_.limits, units(state));
    epochs_ += descent.run(tolerance, std::max<int64_t>(rules_.spec->max_epochs - epochs_, 0));
    std::vector<double> from(work_.size()), eta(eta_), change(n_);
    for (size_t c = 0; c < work_.size(); c++)
        from[c] = w_[work_[c]];
    for (int64_t i = 0; i < n_; i++)
        change[i] = r[i] - residual(state, h, i);
    double before = squared() ? 0 : loss(eta_) + penalty(), share = 1;
    for (int k = 0; k < MOST_HALVINGS; k++, share /= 2) {
        for (size_t c = 0; c < work_.size(); c++)
            w_[work_[c]] = share == 1 ? w[c] : from[c] + share * (w[c] - from[c]);
        for (int64_t i = 0; i < n_; i++)
            eta_[i] = eta[i] + share * change[i];
        if (squared() || loss(eta_) + penalty() <= before)
            return;
    }
    for (size_t c = 0; c < work_.size(); c++)
        w_[work_[c]] = from[c];
    eta_ = eta;
}

} // namespace tusk
