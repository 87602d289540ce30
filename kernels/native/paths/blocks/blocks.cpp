// Blocks of features, and the exact minimum over the weights of one block.
#include "blocks.hpp"

#include <algorithm>
#include <unordered_map>

namespace tusk {

namespace {
constexpr int MOST_SWEEPS = 40, MOST_STEPS = 100;

// One rotation of Jacobi's method (G. Golub and C. Van Loan, Matrix Computations, section 8.5).
void rotate(std::vector<double> &m, std::vector<double> &v, size_t p, size_t a, size_t b) {
    double off = m[a * p + b];
    double theta = (m[b * p + b] - m[a * p + a]) / (2 * off);
    double t = (theta < 0 ? -1 : 1) / (std::abs(theta) + std::sqrt(1 + theta * theta));
    double c = 1 / std::sqrt(1 + t * t), s = t * c;
    for (size_t k = 0; k < p; k++) {
        double x = m[k * p + a], y = m[k * p + b];
        m[k * p + a] = c * x - s * y;
        m[k * p + b] = s * x + c * y;
    }
    for (size_t k = 0; k < p; k++) {
        double x = m[a * p + k], y = m[b * p + k];
        m[a * p + k] = c * x - s * y;
        m[b * p + k] = s * x + c * y;
        x = v[a * p + k], y = v[b * p + k];
        v[a * p + k] = c * x - s * y;
        v[b * p + k] = s * x + c * y;
    }
}
} // namespace

Blocks Blocks::made(const int32_t *number, int64_t d) {
    Blocks out;
    if (!number)
        return out;
    std::unordered_map<int32_t, std::vector<int32_t>> by_number;
    for (int64_t j = 0; j < d; j++)
        by_number[number[j]].push_back((int32_t)j);
    out.of.assign(d, -1);
    for (int64_t j = 0; j < d; j++) {
        std::vector<int32_t> &all = by_number[number[j]];
        if (all.size() < 2 || all[0] != j)
            continue;
        for (int32_t one : all)
            out.of[one] = (int32_t)out.members.size();
        out.root.push_back(std::sqrt((double)all.size()));
        out.members.push_back(std::move(all));
    }
    return out;
}

std::vector<double> Blocks::sizes(const std::vector<double> &v) const {
    std::vector<double> out(members.size());
    for (size_t b = 0; b < members.size(); b++) {
        for (int32_t j : members[b])
            out[b] += v[j] * v[j];
        out[b] = std::sqrt(out[b]) / root[b];
    }
    return out;
}

Spectrum spectrum_of(std::vector<double> m, size_t p) {
    Spectrum out{std::vector<double>(p * p), std::vector<double>(p)};
    for (size_t a = 0; a < p; a++)
        out.vectors[a * p + a] = 1;
    for (int sweep = 0; sweep < MOST_SWEEPS; sweep++) {
        bool any = false;
        for (size_t a = 0; a < p; a++)
            for (size_t b = a + 1; b < p; b++) {
                double off = m[a * p + b];
                if (off * off > 1e-32 * m[a * p + a] * m[b * p + b]) {
                    rotate(m, out.vectors, p, a, b);
                    any = true;
                }
            }
        if (!any)
            break;
    }
    for (size_t a = 0; a < p; a++)
        out.values[a] = std::max(m[a * p + a], 0.0);
    return out;
}

void Unit::least(const Penalty &penalty, const double *u, const double *w0, double *to) const {
    const double *v = spectrum->vectors.data(), *s = spectrum->values.data();
    const bool bounded = spectrum->vectors.empty();
    double c = penalty.l1 * root, norm = 0;
    std::vector<double> z(count);
    for (size_t k = 0; k < count; k++) {
        if (bounded)
            z[k] = u[k] + s[k] * w0[k];
        for (size_t j = 0; j < count && !bounded; j++)
            z[k] += v[k * count + j] * (u[j] + s[k] * w0[j]);
        norm += z[k] * z[k];
    }
    std::fill_n(to, count, 0.0);
    if (!(std::sqrt(norm) > c))
        return;
    // t = ||w||, by Newton's method on 1 / sqrt(f), which is concave, from the left
    double t = 0;
    for (int step = 0; step < MOST_STEPS; step++) {
        double f = 0, slope = 0;
        for (size_t k = 0; k < count; k++) {
            double q = (s[k] + penalty.l2) * t + c, r = z[k] / q;
            f += r * r;
            slope += r * r * (s[k] + penalty.l2) / q;
        }
        double by = slope > 0 ? f * (std::sqrt(f) - 1) / slope : 0;
        t += by;
        if (!(by > 1e-15 * t))
            break;
    }
    for (size_t k = 0; k < count; k++) {
        double w = z[k] * t / ((s[k] + penalty.l2) * t + c);
        if (bounded)
            to[k] = w;
        for (size_t j = 0; j < count && !bounded; j++)
            to[j] += v[k * count + j] * w;
    }
}

} // namespace tusk
