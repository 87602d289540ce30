// Common parts of gradient methods on a single problem: the moves that L-BFGS remembers, and
// shortening of steps. `learners/linear/algorithms/` has the same for batches.
#ifndef TUSK_SPECTRUM_MOVES_HPP
#define TUSK_SPECTRUM_MOVES_HPP

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace tusk {

// Dot products and sums of vectors, for planning.

// Eight partial sums, which the compiler may vectorize.
inline double dot(const double *a, const double *b, int64_t n) {
    double sum[8] = {};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int64_t j = 0; j < 8; j++)
            sum[j] += a[i + j] * b[i + j];
    for (; i < n; i++)
        sum[0] += a[i] * b[i];
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

// y += by x.
inline void add(double by, const double *x, double *y, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        y[i] += by * x[i];
}

constexpr int64_t MEMORY = 10;       // moves that L-BFGS remembers
constexpr int64_t LAST = 10;         // last objectives, whose maximum is the limit
constexpr double SUFFICIENT = 1e-4;  // least fraction of the decrease that the slope promises
constexpr double LEAST_SHRUNK = 0.5; // least factor of a step that failed
constexpr double MOST_SHRUNK = 0.02;
constexpr int MOST_TRIALS = 40;

using Vector = std::vector<double>;

inline double dot(const Vector &a, const Vector &b) {
    return dot(a.data(), b.data(), a.size());
}

// For a step by which the objective rose by `risen`, the fraction that minimises a parabola.
inline double shrunk(double risen, double promised) {
    const double above = risen - promised;
    const double share = above > 0 ? -promised / (2 * above) : 0;
    return std::clamp(share, MOST_SHRUNK, LEAST_SHRUNK);
}

// The step of Barzilai and Borwein after a move.
inline double spectral_step(const Vector &move, const Vector &change, double step) {
    const double sy = dot(move, change), ss = dot(move, move);
    return sy > 1e-14 * ss ? ss / sy : 2 * step;
}

// The inverse curvature by the last moves (Liu and Nocedal, 1989).
struct Moves {
    std::vector<Vector> s, y; // the n-th move at n % MEMORY
    Vector rho, alpha = Vector(MEMORY);
    double gamma = 0;
    int64_t count = 0;

    void remember(const Vector &move, const Vector &change) {
        const double sy = dot(move, change), yy = dot(change, change);
        if (!(sy > 1e-10 * std::sqrt(dot(move, move) * yy)))
            return;
        if (s.size() < MEMORY) {
            s.emplace_back();
            y.emplace_back();
            rho.push_back(0);
        }
        s[count % MEMORY] = move;
        y[count % MEMORY] = change;
        rho[count % MEMORY] = 1 / sy;
        gamma = sy / yy;
        count++;
    }

    void towards(const Vector &gradient, Vector &direction) {
        const int64_t n = direction.size(), known = s.size();
        direction = gradient;
        for (int64_t back = 1; back <= known; back++) {
            const int64_t k = (count - back) % MEMORY;
            alpha[k] = rho[k] * dot(s[k], direction);
            add(-alpha[k], y[k].data(), direction.data(), n);
        }
        for (double &one : direction)
            one *= gamma;
        for (int64_t back = known; back >= 1; back--) {
            const int64_t k = (count - back) % MEMORY;
            add(alpha[k] - rho[k] * dot(y[k], direction), s[k].data(), direction.data(), n);
        }
    }
};

} // namespace tusk

#endif
