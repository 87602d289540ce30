// Batches with a custom loss function (tk_loss).
#pragma once

#include "visits.hpp"

namespace tusk {

// Like evaluate_batch, with the loss of job->open if it has one. If that fails, so do the visits,
// and all derivatives are 0.
template <class T, class Margin>
double evaluate_stored(const tk_stored *job, Visits &visits, const SparseBatch<T> &batch,
                       const Loss &loss, const Labels &labels, Margin &&margin,
                       std::vector<double> &r) {
    const tk_open *open = job->open;
    if (!open || !open->loss)
        return evaluate_batch(batch, loss, labels, margin, r);
    const size_t n = (size_t)batch.n;
    bool classes = is_of_classes((LossKind)job->pass->loss);
    std::vector<double> m(n), y(n), values(n);
    r.assign(n, 0.0);
    for (size_t i = 0; i < n; i++) {
        m[i] = margin(batch.rows[i]);
        y[i] = !classes ? batch.y[i] : batch.y[i] == labels.positive ? 1 : -1;
    }
    if (open->answered)
        *open->answered = 0;
    if (open->loss(m.data(), y.data(), batch.n, values.data(), r.data(), nullptr) ||
        (open->answered && !*open->answered)) {
        visits.fail(TK_LOSS_FAILED, -1, "");
        r.assign(n, 0.0);
        return 0;
    }
    double total = 0;
    for (size_t i = 0; i < n; i++) {
        double weight = !labels.weighted                ? 1
                        : batch.y[i] == labels.positive ? labels.weight_positive
                                                        : labels.weight_negative;
        total += weight * values[i];
        r[i] *= weight;
    }
    return total;
}

// Like evaluate_row, for one row with margin m.
template <class T>
double evaluate_stored_row(const tk_stored *job, Visits &visits, const Loss &loss,
                           const Labels &labels, double m, double y, double *d) {
    if (!job->open || !job->open->loss)
        return evaluate_row(loss, labels, m, y, d);
    SparseRow<T> row{};
    std::vector<double> r;
    double lost = evaluate_stored(
        job, visits, SparseBatch<T>{&row, &y, 1}, loss, labels,
        [m](const SparseRow<T> &) { return m; }, r);
    *d = r[0];
    return lost;
}

} // namespace tusk
