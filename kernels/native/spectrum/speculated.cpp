// Methods that follow gradients, run on a quadratic model instead of on rows: for planning.
//
// In the eigenvectors' coordinates the model is f(v) = g.v + 1/2 sum(lambda_i v_i^2), so that an
// iteration takes a few operations per eigenvalue, whatever the number of rows. All that these
// methods do is invariant to rotations, but for the norm that ends them.
#include <algorithm>
#include <cmath>
#include <vector>

#include "api.h"
#include "vectors.hpp"

namespace tusk {
namespace {

constexpr int64_t MEMORY = 10;       // moves that L-BFGS remembers
constexpr int64_t LAST = 10;         // objectives, the highest of which is not to be passed
constexpr double SUFFICIENT = 1e-4;  // of the decrease that the slope promises
constexpr double LEAST_SHRUNK = 0.5; // of a step that failed
constexpr double MOST_SHRUNK = 0.02;
constexpr int MOST_TRIALS = 40;

using Vector = std::vector<double>;

using tusk::dot;

double dot(const Vector &a, const Vector &b) {
    return dot(a.data(), b.data(), a.size());
}

// Where a method stands on the model.
struct Place {
    const tk_quadratic &model;
    Vector v, gradient, direction, moved;
    double objective = 0;

    explicit Place(const tk_quadratic &given)
        : model(given), v(given.k), gradient(given.gradient, given.gradient + given.k),
          direction(given.k), moved(given.k) {}

    double norm() const { return std::sqrt(dot(gradient, gradient)); }

    // The change of the objective by a step along the direction.
    double rise(double step, double slope) const {
        double bend = 0;
        for (size_t i = 0; i < v.size(); i++)
            bend += model.eigenvalue[i] * direction[i] * direction[i];
        return step * slope + 0.5 * step * step * bend;
    }

    // Moves along the direction; false where no step lowers the objective below `allowed` more.
    bool search(double &step, double allowed, bool halving) {
        const double slope = dot(direction, gradient);
        for (int trial = 0; trial < MOST_TRIALS; trial++) {
            const double risen = rise(step, slope);
            if (risen <= SUFFICIENT * step * slope + allowed) {
                objective += risen;
                for (size_t i = 0; i < v.size(); i++) {
                    moved[i] = step * direction[i];
                    v[i] += moved[i];
                    gradient[i] += model.eigenvalue[i] * moved[i];
                }
                return true;
            }
            const double promised = step * slope, bent = risen - promised;
            const double share = bent > 0 ? -promised / (2 * bent) : 0;
            step *= halving ? LEAST_SHRUNK : std::clamp(share, MOST_SHRUNK, LEAST_SHRUNK);
        }
        return false;
    }
};

// The inverse curvature by the last moves (Liu and Nocedal, 1989).
struct Moves {
    std::vector<Vector> s, y; // the n-th move at n % MEMORY
    Vector rho, alpha = Vector(MEMORY), change;
    double gamma = 0;
    int64_t count = 0;

    void remember(const Vector &move, const Vector &eigenvalue) {
        change.resize(move.size());
        for (size_t i = 0; i < move.size(); i++)
            change[i] = eigenvalue[i] * move[i];
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

// Each method notes the gradient's norm after each iteration and returns how many it made.
struct Errors {
    const tk_quadratic &model;
    double *out;
    int64_t made = 0;

    // Whether to go on after noting a norm.
    bool note(double norm) {
        out[made++] = norm;
        return std::isfinite(norm) && norm > model.tolerance && made < model.most;
    }
};

void quasi_newton(const tk_quadratic &model, Errors &errors) {
    Place at(model);
    Moves moves;
    const Vector eigenvalue(model.eigenvalue, model.eigenvalue + model.k);
    while (errors.note(at.norm())) {
        double step = 1;
        if (moves.s.empty()) {
            at.direction = at.gradient;
            step = model.first_step;
        } else {
            moves.towards(at.gradient, at.direction);
        }
        for (double &one : at.direction)
            one = -one;
        if (!at.search(step, 1e-14 * std::abs(at.objective), false))
            return;
        moves.remember(at.moved, eigenvalue);
    }
}

void spectral_steps(const tk_quadratic &model, Errors &errors) {
    Place at(model);
    double step = model.first_step;
    Vector seen;
    while (errors.note(at.norm())) {
        seen.push_back(at.objective);
        const size_t from = seen.size() > LAST ? seen.size() - LAST : 0;
        const double highest = *std::max_element(seen.begin() + from, seen.end());
        for (size_t i = 0; i < at.v.size(); i++)
            at.direction[i] = -at.gradient[i];
        if (!at.search(step, highest - at.objective + 1e-14 * std::abs(at.objective), true))
            return;
        double sy = 0;
        for (size_t i = 0; i < at.v.size(); i++)
            sy += at.moved[i] * model.eigenvalue[i] * at.moved[i];
        const double ss = dot(at.moved, at.moved);
        step = sy > 1e-14 * ss ? ss / sy : 2 * step;
    }
}

void conjugate_gradients(const tk_quadratic &model, Errors &errors) {
    Place at(model);
    for (size_t i = 0; i < at.v.size(); i++)
        at.direction[i] = -at.gradient[i];
    double size = dot(at.gradient, at.gradient);
    while (errors.note(std::sqrt(size))) {
        double bend = 0;
        for (size_t i = 0; i < at.v.size(); i++)
            bend += model.eigenvalue[i] * at.direction[i] * at.direction[i];
        if (!(bend > 0))
            return;
        const double by = size / bend, before = size;
        for (size_t i = 0; i < at.v.size(); i++)
            at.gradient[i] += by * model.eigenvalue[i] * at.direction[i];
        size = dot(at.gradient, at.gradient);
        for (size_t i = 0; i < at.v.size(); i++)
            at.direction[i] = size / before * at.direction[i] - at.gradient[i];
    }
}

} // namespace
} // namespace tusk

int64_t tk_speculate(const tk_quadratic *model, int method, double *errors) {
    tusk::Errors noted{*model, errors};
    if (method == TK_QUASI_NEWTON)
        tusk::quasi_newton(*model, noted);
    else if (method == TK_SPECTRAL_STEPS)
        tusk::spectral_steps(*model, noted);
    else
        tusk::conjugate_gradients(*model, noted);
    return noted.made;
}
