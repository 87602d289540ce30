// Changes of the margins of several classes along a direction, which decide whether the loss has
// an optimum (learners/linear/inference/separation.py).
#include "../shared/reach.hpp"
#include "softmax.hpp"

namespace tusk {
namespace {

template <class T>
void margins_of(const SparseBlock<T> &x, int, int64_t d, const double *w, const double *,
                double *m) {
    margins(x, w, w[d], m);
}
void margins_of(const auto &x, int n, int64_t d, const double *w, const double *padded_w,
                double *m) {
    margins(x, n, d, padded_w, w[d], m);
}

// Adds row i of class `own`, with its margins and their moves by class.
void take(ClassRows &margin, ClassRows &move, int64_t n_classes, int64_t own, int i, double far,
          Reach *out) {
    double top = margin.of(own)[i], sum = 0, mean = 0;
    for (int64_t k = 0; k < n_classes; k++)
        top = std::max(top, margin.of(k)[i]);
    for (int64_t k = 0; k < n_classes; k++) {
        double share = std::exp(margin.of(k)[i] - top);
        sum += share;
        mean += share * move.of(k)[i];
    }
    mean /= sum;
    for (int64_t k = 0; k < n_classes; k++)
        if (k != own && !(margin.of(own)[i] - margin.of(k)[i] > far))
            out->take(margin.of(own)[i] - margin.of(k)[i], move.of(own)[i] - move.of(k)[i],
                      move.of(k)[i] - mean);
}

template <class T>
int softmax_reach(const tk_pass *pass, const tk_softmax *s, const double *weights,
                  const double *direction, const double *far, double *out) {
    int64_t d = pass->groups[0].dim, p = d + 1, n_classes = s->n_classes;
    return reach_by_group(pass, out, [&](const Chunk &c, Reach *found) {
        const ClassSet classes(s, c.group);
        const double *u = direction + c.group * n_classes * p;
        const ClassWeights along(n_classes, d, u);
        ClassRows margin(n_classes), move(n_classes);
        each_block<T>(pass, s, c, weights, margin, [&](const auto &x, const Targets &y, int n) {
            for (int64_t k = 0; k < n_classes; k++)
                margins_of(x, n, d, u + k * p, along.of(k), move.of(k));
            for (int i = 0; i < n; i++)
                take(margin, move, n_classes, classes.place(y.y[i]), i, far[c.group], found);
        });
    });
}

} // namespace
} // namespace tusk

int tk_softmax_reach(const tk_pass *pass, const tk_softmax *softmax, const double *weights,
                     const double *direction, const double *far, double *out) {
    using namespace tusk;
    return code_of([&] {
        return with_storage(pass, [&]<class T>(const T *) {
            return softmax_reach<T>(pass, softmax, weights, direction, far, out);
        });
    });
}
