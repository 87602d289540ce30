// Statistics of a part's rows from which the bins of all rows follow.
#include "../../shared/charged.hpp"
#include "../../shared/pool.hpp"
#include "../categories/levels.hpp"
#include "../losses/softmax.hpp"
#include "given.hpp"

using namespace tusk;

struct tk_bin_sample {
    std::vector<const void *> rows;
    int32_t kind;
};

void tk_weights(const tusk_group *group, double *out) {
    Weights found = weights_of(*group);
    out[0] = found.total, out[1] = found.most, out[2] = found.unit;
}

double tk_common_unit(const double *units, int64_t n) {
    CommonUnit found;
    for (int64_t i = 0; i < n; i++) {
        if (units[i] == 0)
            return 0;
        found.add(units[i]);
    }
    return found.value();
}

void tk_range_of_labels(const tusk_group *group, double *out) {
    std::vector<double> labels(group->n_rows);
    copy_labels(*group, labels.data());
    Scales found;
    found.add(labels.data(), group->n_rows);
    out[0] = found.least, out[1] = found.greatest;
}

void tk_gaps(const tusk_group *group, uint8_t *out) {
    std::vector<uint8_t> found = missing_in(*group);
    std::copy(found.begin(), found.end(), out);
}

int tk_bin_sample_new(const tusk_group *group, int64_t all_rows, tk_bin_sample **out,
                      int64_t *n_rows) {
    return code_of([&] {
        *out = new tk_bin_sample{sampled(*group, all_rows), group->kind};
        *n_rows = (int64_t)(*out)->rows.size();
        return (int)TK_OK;
    });
}

void tk_bin_sample_free(tk_bin_sample *sample) {
    delete sample;
}

int64_t tk_bin_sample_values(const tk_bin_sample *sample, int64_t feature, double *out) {
    return copy_values(sample->rows, sample->kind, (int32_t)feature, out);
}

int tk_level_counts(const tusk_group *group, int64_t feature, int64_t *out) {
    return code_of([&] {
        std::vector<uint8_t> only(group->dim);
        only[feature] = 1;
        if (!are_levels(*group, only.data()))
            return (int)TK_REFUSED;
        std::vector<size_t> rows = level_counts(*group, (int32_t)feature);
        for (size_t level = 0; level < rows.size(); level++)
            out[level] += (int64_t)rows[level];
        return (int)TK_OK;
    });
}

namespace {

// Writes the result of `find`. Returns the count of numbers, -1: no memory.
template <class Find> int64_t written(double *out, Find &&find) {
    int64_t n = -1;
    code_of([&] {
        std::vector<double> found = find();
        std::copy(found.begin(), found.end(), out);
        n = (int64_t)found.size();
        return (int)TK_OK;
    });
    return n;
}

} // namespace

int64_t tk_bounds_of(double *values, int64_t n, const tk_boost *boost, int64_t all_rows,
                     double *out) {
    return written(out, [&] {
        std::vector<double> all(values, values + n);
        return bounds_by(all, boost->max_bins, rows_in_bins(*boost, all_rows));
    });
}

int64_t tk_levels_of(const int64_t *rows, const tk_boost *boost, double *out) {
    return written(out, [&] {
        return frequent_levels(std::vector<size_t>(rows, rows + TK_MOST_LEVEL + 1),
                               boost->max_bins);
    });
}

double tk_between(double low, double high, int64_t n, double t) {
    return between(low, high, n, t);
}

int64_t tk_kept_iterations(double base_loss, const double *loss, const double *held, int64_t n) {
    if (held && n)
        n = std::min_element(held, held + n) - held + 1;
    double least = base_loss;
    int64_t best = 0;
    for (int64_t i = 0; i < n; i++)
        if (loss[i] < least)
            least = loss[i], best = i + 1;
    double most = least + (base_loss - least) / 2 + 1e-12 * std::fabs(base_loss);
    return n && std::isfinite(base_loss) && !(loss[n - 1] <= most) ? best : n;
}

double tk_base_of(const tk_boost *boost, double sum, double total) {
    if (boost->objective == TK_SOFTMAX)
        return ClassLosses::base_of(sum, total);
    return constant_of(boost->objective, sum, total);
}
