// A part of a group's rows, whose weights a leader on another worker updates.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "fit.hpp"
#include "logistic.hpp"

namespace tusk {
namespace {

constexpr int64_t MOST_CACHED = 1 << 27; // numbers of copied columns
constexpr int64_t SHARE = 4096;          // rows that a thread updates at a time

} // namespace

// For sparse rows and the squared loss, a change of a weight touches the rows that have the
// feature: t is that of margins without `lag`, which all rows have in common.
class PathPart {
public:
    PathPart(Sample sample, bool logistic, int threads, tusk_memory *memory)
        : sample_(std::move(sample)), x_(*sample_.features), logistic_(logistic),
          threads_(threads), n_(x_.n), d_(x_.d), a_(sample_.a), t_(n_), h_(logistic ? n_ : 0),
          margin_(n_), cache_(memory, n_), slot_(x_.sparse() ? 0 : d_, -1) {}

    void moments(double *weight, double *mean, double *variance) const {
        *weight = sample_.weight;
        x_.moments(sample_.a.data(), mean, variance);
        for (int64_t j = 0; j < d_; j++) {
            mean[j] /= sample_.weight;
            variance[j] = std::max(variance[j] / sample_.weight - mean[j] * mean[j], 0.0);
            mean[j] += x_.origin(j);
        }
    }

    void start(double total, const double *centre, const double *scale) {
        total_ = sample_.weight / total;
        for (int64_t i = 0; i < n_; i++)
            a_[i] = sample_.a[i] / total;
        scale_.assign(scale, scale + d_);
        centre_.assign(centre, centre + d_);
        for (int64_t j = 0; j < d_; j++)
            centre_[j] -= x_.origin(j);
        if (lazy()) {
            std::vector<double> squares(d_);
            sum_.resize(d_);
            x_.moments(a_.data(), sum_.data(), squares.data());
        }
        w_.assign(d_, 0.0);
        refresh();
    }

    void step(const tk_path_step &step, double *pull, double *curvature, double *sums) {
        std::vector<int32_t> picked(step.picked, step.picked + step.n_picked);
        std::vector<int32_t> changed(step.changed, step.changed + step.n_changed);
        std::vector<double> by(step.n_changed);
        for (size_t c = 0; c < changed.size(); c++) {
            by[c] = step.weight[c] - w_[changed[c]];
            w_[changed[c]] = step.weight[c];
        }
        bool shifted = step.constant != constant_;
        constant_ = step.constant;
        cache(changed);
        move(changed, by);
        if (logistic_ ? shifted || !changed.empty() : shifted && !lazy())
            derivatives();
        tell(sums);
        cache(picked);
        parallel_for(step.n_picked, threads_, [&](int64_t c) {
            pull[c] = product(picked[c]);
            if (logistic_)
                curvature[c] = squares(picked[c], sums[2]);
        });
    }

    void look(double shift, double *pull, double *sums) {
        refresh();
        std::vector<double> t = shifted(shift);
        x_.correlate(t.data(), pull);
        double total = std::accumulate(t.begin(), t.end(), 0.0);
        for (int64_t j = 0; j < d_; j++)
            pull[j] = scale_[j] * (pull[j] - centre_[j] * total);
        sums[0] = sums[1] = 0;
        for (int64_t i = 0; i < n_; i++) {
            sums[0] += a_[i] > 0 ? t[i] * t[i] / a_[i] : 0;
            sums[1] += t[i] * (sample_.y[i] - margin_[i] - constant());
        }
    }

    double dual(double shift, double factor) const {
        std::vector<double> t = shifted(shift);
        double sum = 0;
        for (int64_t i = 0; i < n_; i++) {
            if (!(a_[i] > 0))
                continue;
            double q = sample_.y[i] - factor * t[i] / a_[i];
            if (q < -DUAL_ROUNDING || q > 1 + DUAL_ROUNDING)
                return NAN;
            sum += a_[i] * entropy(q);
        }
        return sum;
    }

    void sample(int64_t rows, const std::vector<int32_t> &features, float *out) {
        cache(features);
        std::vector<int32_t> place(n_, -1);
        std::vector<double> root(rows);
        for (int64_t k = 0; k < rows; k++) {
            int64_t row = k * n_ / rows;
            place[row] = (int32_t)k;
            root[k] = std::sqrt(a_[row]);
        }
        for (size_t f = 0; f < features.size(); f++) {
            int32_t j = features[f];
            float *to = out + f * rows;
            if (!x_.sparse()) {
                for (int64_t k = 0; k < rows; k++)
                    to[k] = (float)(root[k] * cache_[slot_[j]][k * n_ / rows]);
                continue;
            }
            for (int64_t k = 0; k < rows; k++)
                to[k] = (float)(-root[k] * scale_[j] * centre_[j]);
            Features::Entries e = x_.entries(j);
            for (int64_t i = 0; i < e.n; i++)
                if (int32_t k = place[e.row[i]]; k >= 0)
                    to[k] += (float)(root[k] * scale_[j] * e.value[i]);
        }
    }

private:
    Sample sample_;
    const Features &x_;
    bool logistic_;
    int threads_;
    int64_t n_, d_;
    std::vector<double> a_, t_, h_, margin_; // margins without `constant()`; (n,) each
    std::vector<double> centre_, scale_, w_; // (d,); centres of x' = x - origin
    std::vector<double> sum_;                // (d,) sums of a x', if lazy
    Columns cache_;                          // copied columns of z of dense rows
    std::vector<int32_t> slot_;              // (d,) their indices, or -1
    double constant_ = 0, moved_ = 0;        // moved_: by the centres of sparse columns
    double total_ = 0;                       // sum of a
    double slope_ = 0, squares_ = 0;         // sums of t and of t^2 / a, if lazy

    bool lazy() const { return x_.sparse() && !logistic_; }
    double constant() const { return constant_ + moved_; }
    double lag() const { return lazy() ? constant() : 0; }

    // Copies columns of z of dense rows that are not copied yet.
    void cache(const std::vector<int32_t> &features) {
        if (x_.sparse())
            return;
        std::vector<int32_t> fresh;
        for (int32_t j : features)
            if (slot_[j] < 0)
                fresh.push_back(j);
        if (fresh.empty())
            return;
        if ((int64_t)(cache_.size() + fresh.size()) * n_ > MOST_CACHED) {
            cache_.keep({});
            std::fill(slot_.begin(), slot_.end(), -1);
            fresh = features;
        }
        size_t from = cache_.size();
        cache_.grow(fresh.size());
        std::vector<double *> to;
        for (size_t c = 0; c < fresh.size(); c++)
            to.push_back(cache_[from + c]);
        x_.copy(fresh, to.data());
        parallel_for((int64_t)fresh.size(), threads_, [&](int64_t c) {
            int32_t j = fresh[c];
            for (int64_t i = 0; i < n_; i++)
                to[c][i] = (to[c][i] - centre_[j]) * scale_[j];
            slot_[j] = (int32_t)(from + c);
        });
    }

    // Adds to margins, and to t if the loss is squared.
    void move(const std::vector<int32_t> &features, const std::vector<double> &by) {
        if (!x_.sparse())
            parallel_for((n_ + SHARE - 1) / SHARE, threads_, [&](int64_t task) {
                int64_t from = task * SHARE, rows = std::min(n_ - from, SHARE);
                std::vector<double> change(rows);
                for (size_t c = 0; c < features.size(); c++)
                    add(change.data(), by[c], cache_[slot_[features[c]]] + from, rows);
                for (int64_t i = 0; i < rows; i++) {
                    margin_[from + i] += change[i];
                    t_[from + i] -= logistic_ ? 0 : a_[from + i] * change[i];
                }
            });
        for (size_t c = 0; x_.sparse() && c < features.size(); c++)
            move_entries(features[c], by[c] * scale_[features[c]]);
    }

    void move_entries(int32_t j, double by) {
        Features::Entries e = x_.entries(j);
        moved_ -= by * centre_[j];
        for (int64_t k = 0; k < e.n; k++) {
            int32_t i = e.row[k];
            margin_[i] += by * e.value[k];
            if (logistic_ || !(a_[i] > 0))
                continue;
            double before = t_[i];
            t_[i] -= a_[i] * by * e.value[k];
            slope_ += t_[i] - before;
            squares_ += (t_[i] * t_[i] - before * before) / a_[i];
        }
    }

    // Recomputes margins from the weights, which removes accumulated rounding.
    void refresh() {
        std::fill(margin_.begin(), margin_.end(), 0.0);
        moved_ = 0;
        std::vector<int32_t> support;
        std::vector<double> by;
        for (int64_t j = 0; j < d_; j++)
            if (w_[j] != 0) {
                support.push_back((int32_t)j);
                by.push_back(w_[j]);
            }
        cache(support);
        move(support, by);
        derivatives();
    }

    void derivatives() {
        double c = lazy() ? 0 : constant();
        slope_ = squares_ = 0;
        for (int64_t i = 0; i < n_; i++) {
            double p = logistic_ ? probability(margin_[i] + c) : margin_[i] + c;
            t_[i] = a_[i] * (sample_.y[i] - p);
            if (logistic_)
                h_[i] = a_[i] * std::max(p * (1 - p), LEAST_CURVATURE);
            slope_ += t_[i];
            squares_ += a_[i] > 0 ? t_[i] * t_[i] / a_[i] : 0;
        }
    }

    // Sums of the loss, t and h.
    void tell(double *sums) {
        sums[1] = slope_ - lag() * total_;
        if (lazy()) {
            sums[0] = 0.5 * (squares_ - 2 * lag() * slope_ + lag() * lag() * total_);
            sums[2] = total_;
            return;
        }
        sums[0] = sums[1] = sums[2] = 0;
        for (int64_t i = 0; i < n_; i++) {
            double m = margin_[i] + constant(), y = sample_.y[i];
            sums[0] += a_[i] * (logistic_ ? log1p_exp(m) - y * m : 0.5 * (y - m) * (y - m));
            sums[1] += t_[i];
            sums[2] += logistic_ ? h_[i] : a_[i];
        }
        slope_ = sums[1];
    }

    double product(int32_t j) const {
        if (!x_.sparse())
            return dot(cache_[slot_[j]], t_.data(), n_);
        Features::Entries e = x_.entries(j);
        double sum = lazy() ? -lag() * sum_[j] : 0;
        for (int64_t k = 0; k < e.n; k++)
            sum += e.value[k] * t_[e.row[k]];
        return scale_[j] * (sum - centre_[j] * (slope_ - lag() * total_));
    }

    double squares(int32_t j, double total) const {
        double sum = 0, squares = 0;
        if (!x_.sparse()) {
            const double *z = cache_[slot_[j]];
            for (int64_t i = 0; i < n_; i++)
                squares += h_[i] * z[i] * z[i];
            return squares;
        }
        Features::Entries e = x_.entries(j);
        for (int64_t k = 0; k < e.n; k++) {
            sum += h_[e.row[k]] * e.value[k];
            squares += h_[e.row[k]] * e.value[k] * e.value[k];
        }
        double c = centre_[j];
        return scale_[j] * scale_[j] * std::max(squares - 2 * c * sum + c * c * total, 0.0);
    }

    std::vector<double> shifted(double shift) const {
        std::vector<double> t(n_);
        for (int64_t i = 0; i < n_; i++)
            t[i] = t_[i] - lag() * a_[i] - shift * (logistic_ ? h_[i] : a_[i]);
        return t;
    }
};

} // namespace tusk

struct tk_path_part : tusk::PathPart {
    using PathPart::PathPart;
};

int tk_path_part_new(const tk_pass *pass, int32_t loss, tusk_memory *memory, tk_path_part **out) {
    using namespace tusk;
    *out = nullptr;
    return code_of_fit([&] {
        int code;
        Sample sample = sample_of(pass, 0, Taken{}, pass->threads, memory, &code);
        if (code == TK_OK)
            *out = new tk_path_part(std::move(sample), loss == TK_PATH_LOGISTIC, pass->threads,
                                    memory);
        return code;
    });
}

void tk_path_part_free(tk_path_part *part) {
    delete part;
}

int tk_path_part_moments(const tk_path_part *part, double *weight, double *mean,
                         double *variance) {
    return tusk::code_of_fit([&] {
        part->moments(weight, mean, variance);
        return TK_OK;
    });
}

int tk_path_part_start(tk_path_part *part, double total, const double *centre,
                       const double *scale) {
    return tusk::code_of_fit([&] {
        part->start(total, centre, scale);
        return TK_OK;
    });
}

int tk_path_part_step(tk_path_part *part, const tk_path_step *step, double *pull,
                      double *curvature, double *sums) {
    return tusk::code_of_fit([&] {
        part->step(*step, pull, curvature, sums);
        return TK_OK;
    });
}

int tk_path_part_look(tk_path_part *part, double shift, double *pull, double *sums) {
    return tusk::code_of_fit([&] {
        part->look(shift, pull, sums);
        return TK_OK;
    });
}

int tk_path_part_dual(const tk_path_part *part, double shift, double factor, double *out) {
    return tusk::code_of_fit([&] {
        *out = part->dual(shift, factor);
        return TK_OK;
    });
}

int tk_path_part_sample(tk_path_part *part, int64_t rows, int64_t n, const int32_t *feature,
                        float *out) {
    return tusk::code_of_fit([&] {
        part->sample(rows, std::vector<int32_t>(feature, feature + n), out);
        return TK_OK;
    });
}
