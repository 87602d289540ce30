// Gradient methods on a quadratic model instead of on rows, for planning. The model is f(y) = g.y
// + 1/2 y'Ty in coordinates in which the curvature T is tridiagonal, those of Lanczos' vectors, or
// diagonal, those of the eigenvectors. So an iteration takes a few operations per coordinate,
// whatever the number of rows. All operations of these methods are invariant to rotations, except
// for their stopping criterion: the gradient's largest component by weight.
#include <algorithm>
#include <cmath>
#include <vector>

#include "api.h"
#include "moves.hpp"

namespace tusk {
namespace {

constexpr int64_t SELDOM = 16; // iterations per iteration in which the largest component is not
                               // computed

// The model's curvature times x.
void bend(const tk_quadratic &model, const Vector &x, Vector &out) {
    const int64_t k = model.k;
    for (int64_t i = 0; i < k; i++)
        out[i] = model.diagonal[i] * x[i];
    for (int64_t i = 0; model.beside && i + 1 < k; i++) {
        out[i] += model.beside[i] * x[i + 1];
        out[i + 1] += model.beside[i] * x[i];
    }
}

// State of a method on the model; bent: the curvature times the change of the gradient.
struct Place {
    const tk_quadratic &model;
    Vector v, gradient, direction, moved, bent;
    double objective = 0;

    explicit Place(const tk_quadratic &given)
        : model(given), v(given.k), gradient(given.gradient, given.gradient + given.k),
          direction(given.k), moved(given.k), bent(given.k) {}

    // Moves along the direction; false if no step lowers the objective below `allowed`.
    bool search(double &step, double allowed, bool halving) {
        const double slope = dot(direction, gradient);
        bend(model, direction, bent);
        const double curved = dot(direction, bent);
        for (int trial = 0; trial < MOST_TRIALS; trial++) {
            const double risen = step * slope + 0.5 * step * step * curved;
            if (risen <= SUFFICIENT * step * slope + allowed) {
                objective += risen;
                for (size_t i = 0; i < v.size(); i++) {
                    moved[i] = step * direction[i];
                    bent[i] *= step;
                    v[i] += moved[i];
                    gradient[i] += bent[i];
                }
                return true;
            }
            step *= halving ? LEAST_SHRUNK : shrunk(risen, step * slope);
        }
        return false;
    }
};

// Records of the gradient after each iteration.
struct Errors {
    const tk_quadratic &model;
    double *norm, *largest;
    int64_t made = 0, next = 0;
    double share = 1;
    Vector by_weight = {};

    // The gradient's largest component by weight.
    double exactly(const Vector &gradient) {
        by_weight.assign(model.p, 0.0);
        for (int64_t i = 0; i < model.k; i++)
            add(gradient[i], model.basis + i * model.p, by_weight.data(), model.p);
        double most = 0;
        for (double one : by_weight)
            most = std::max(most, std::abs(one));
        return most;
    }

    // Records the gradient, and returns whether to go on. The ratio of the largest component to
    // the norm changes slowly: it is computed less and less often.
    bool note(const Vector &gradient) {
        const double size = std::sqrt(dot(gradient, gradient));
        norm[made] = largest[made] = size;
        if (model.basis && size > 0 && std::isfinite(size)) {
            const bool due = made >= next, ends = size * share <= model.tolerance;
            if (due || ends)
                largest[made] = exactly(gradient);
            else
                largest[made] = size * share;
            if (due) {
                share = largest[made] / size;
                next = made + 1 + made / SELDOM;
            }
        }
        const double left = largest[made++];
        return std::isfinite(left) && left > model.tolerance && made < model.most;
    }
};

void quasi_newton(const tk_quadratic &model, Errors &errors) {
    Place at(model);
    Moves moves;
    while (errors.note(at.gradient)) {
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
        moves.remember(at.moved, at.bent);
    }
}

void spectral_steps(const tk_quadratic &model, Errors &errors) {
    Place at(model);
    double step = model.first_step;
    Vector seen;
    while (errors.note(at.gradient)) {
        seen.push_back(at.objective);
        const size_t from = seen.size() > LAST ? seen.size() - LAST : 0;
        const double highest = *std::max_element(seen.begin() + from, seen.end());
        for (size_t i = 0; i < at.v.size(); i++)
            at.direction[i] = -at.gradient[i];
        if (!at.search(step, highest - at.objective + 1e-14 * std::abs(at.objective), true))
            return;
        step = spectral_step(at.moved, at.bent, step);
    }
}

void conjugate_gradients(const tk_quadratic &model, Errors &errors) {
    Place at(model);
    for (size_t i = 0; i < at.v.size(); i++)
        at.direction[i] = -at.gradient[i];
    double size = dot(at.gradient, at.gradient);
    while (errors.note(at.gradient)) {
        bend(model, at.direction, at.bent);
        const double curved = dot(at.direction, at.bent);
        if (!(curved > 0))
            return;
        const double by = size / curved, before = size;
        add(by, at.bent.data(), at.gradient.data(), at.gradient.size());
        size = dot(at.gradient, at.gradient);
        for (size_t i = 0; i < at.v.size(); i++)
            at.direction[i] = size / before * at.direction[i] - at.gradient[i];
    }
}

} // namespace
} // namespace tusk

int64_t tk_speculate(const tk_quadratic *model, int method, double *norm, double *largest) {
    tusk::Errors noted{*model, norm, largest};
    if (method == TK_QUASI_NEWTON)
        tusk::quasi_newton(*model, noted);
    else if (method == TK_SPECTRAL_STEPS)
        tusk::spectral_steps(*model, noted);
    else
        tusk::conjugate_gradients(*model, noted);
    return noted.made;
}
