#include "sums.hpp"

#include <algorithm>
#include <cmath>

#include "../fit.hpp"
#include "../vectors.hpp"

namespace tusk {

namespace {
constexpr int64_t ROWS_AT_ONCE = 480;  // rows whose columns stay in a core's cache; not a power of
                                       // two
constexpr int64_t ROWS_OF_TASK = 8192; // least number, if a part has as many
constexpr int64_t TASKS_OF_PART = 8;   // largest number
constexpr int64_t TASKS_OF_THREAD = 4; // tasks whose sums are kept at the same time
constexpr int64_t MOST_NUMBERS = 1 << 22;

// Adds the products of columns j and j + 1 with l and l + 1, n numbers each, n a multiple of
// LANES.
void add_four(const double *z, int64_t n, int64_t j, int64_t l, double *out, int64_t k) {
    const double *a = z + j * n, *b = a + n, *c = z + l * n, *d = c + n;
    v8d ac{}, ad{}, bc{}, bd{};
    for (int64_t i = 0; i < n; i += LANES) {
        v8d va = load(a + i), vb = load(b + i), vc = load(c + i), vd = load(d + i);
        ac += va * vc;
        ad += va * vd;
        bc += vb * vc;
        bd += vb * vd;
    }
    out[j * k + l] += sum(ac);
    out[(j + 1) * k + l] += sum(bc);
    out[(j + 1) * k + l + 1] += sum(bd);
    if (l < j)
        out[j * k + l + 1] += sum(ad);
}
} // namespace

bool Sums::few(int64_t d, int64_t parts) {
    return d <= MOST_FEATURES && parts * (d + 2) * (d + 2) <= MOST_NUMBERS;
}

Sums::Sums(const Sample &rows, const std::vector<int64_t> &start, bool intercept, int threads,
           tusk_memory *memory, int64_t cancel_mark)
    : d(rows.features->d), k(d + 2), shift(k), rows_(rows), start_(start),
      cancel_mark_(cancel_mark), intercept_(intercept) {
    std::vector<Task> all = tasks();
    int64_t slots = std::min((int64_t)all.size(), TASKS_OF_THREAD * std::max(threads, 1));
    Charged<double> work;
    for (int code :
         {sums_.take(memory, parts() * k * k), work.take(memory, slots * size_of_work())})
        if (code != TK_OK)
            throw NoMemory{code};
    centre(all, threads, work.data(), slots);
    double *sums = sums_.data();
    std::fill_n(sums, parts() * k * k, 0.0);
    each(
        all, threads, work.data(), slots,
        [&](const Task &task, double *z, double *found) { add_products(task, z, found); },
        [&](const Task &task, const double *found) {
            for (int64_t j = 0; j < k; j++)
                add(sums + (task.part * k + j) * k, 1.0, found + j * (k + 1), j + 1);
        });
    for (int64_t p = 0; p < parts(); p++)
        for (int64_t j = 0; j < k; j++)
            for (int64_t l = 0; l < j; l++)
                sums[p * k * k + l * k + j] = sums[p * k * k + j * k + l];
}

int64_t Sums::size_of_columns() const {
    return (k + 1) * ROWS_AT_ONCE;
}
int64_t Sums::size_of_work() const {
    return size_of_columns() + (k + 1) * (k + 1);
}

// Runs task(task, columns, sums), several at the same time; then take(task, sums) in their order.
template <class Do, class Take>
void Sums::each(const std::vector<Task> &tasks, int threads, double *work, int64_t slots, Do task,
                Take take) const {
    int64_t n = (int64_t)tasks.size(), size = size_of_work();
    for (int64_t first = 0; first < n && !cancelled(cancel_mark_); first += slots) {
        int64_t here = std::min(slots, n - first);
        parallel_for(here, threads, [&](int64_t t) {
            double *z = work + t * size, *found = z + size_of_columns();
            std::fill_n(found, (k + 1) * (k + 1), 0.0);
            task(tasks[first + t], z, found);
        });
        for (int64_t t = 0; t < here; t++)
            take(tasks[first + t], work + t * size + size_of_columns());
    }
}

// The same tasks for any number of threads, so that sums have the same bits.
std::vector<Sums::Task> Sums::tasks() const {
    std::vector<Task> out;
    for (int64_t p = 0; p < parts(); p++) {
        int64_t rows = start_[p + 1] - start_[p];
        int64_t size = std::max(ROWS_OF_TASK, (rows + TASKS_OF_PART - 1) / TASKS_OF_PART);
        for (int64_t at = start_[p]; at < start_[p + 1]; at += size)
            out.push_back({p, at, std::min(at + size, start_[p + 1])});
    }
    return out;
}

// Finds the means of features and labels.
void Sums::centre(const std::vector<Task> &tasks, int threads, double *work, int64_t slots) {
    const Features &x = *rows_.features;
    if (!intercept_) {
        for (int64_t j = 0; j < d; j++)
            shift[j] = -x.origin(j);
        return;
    }
    each(
        tasks, threads, work, slots,
        [&](const Task &task, double *z, double *sum) { add_means(task, z, sum); },
        [&](const Task &, const double *sum) {
            for (int64_t j = 0; j < d; j++)
                shift[j] += sum[j] / rows_.weight;
        });
    shift[labels()] = dot(rows_.a.data(), rows_.y.data(), x.n) / rows_.weight;
}

void Sums::add_means(const Task &task, double *z, double *out) const {
    for (int64_t at = task.from; at < task.to && !cancelled(cancel_mark_); at += ROWS_AT_ONCE) {
        int64_t n = std::min(ROWS_AT_ONCE, task.to - at);
        rows_.features->copy_rows(at, n, z);
        for (int64_t j = 0; j < d; j++)
            out[j] += dot(rows_.a.data() + at, z + j * n, n);
    }
}

bool Sums::varies(int64_t j) const {
    const Features &x = *rows_.features;
    double from = intercept_ ? 0 : x.origin(j);
    std::vector<double> z(d * ROWS_AT_ONCE);
    for (int64_t at = 0; at < x.n && !cancelled(cancel_mark_); at += ROWS_AT_ONCE) {
        int64_t n = std::min(ROWS_AT_ONCE, x.n - at);
        x.copy_rows(at, n, z.data());
        for (int64_t i = 0; i < n; i++)
            if (z[j * n + i] + from != 0)
                return true;
    }
    return false;
}

// Computes columns of some rows times the roots of the rows' weights, with rows of 0 up to a
// multiple of LANES, and with an extra column so that their number is even.
void Sums::columns(int64_t from, int64_t rows, double *z) const {
    int64_t n = (rows + LANES - 1) / LANES * LANES;
    std::vector<double> root(rows);
    for (int64_t i = 0; i < rows; i++)
        root[i] = std::sqrt(rows_.a[from + i]);
    rows_.features->copy_rows(from, rows, z);
    for (int64_t j = d; j-- > 0;) // the last one first, because columns become longer
        for (int64_t i = rows; i-- > 0;)
            z[j * n + i] = (z[j * rows + i] - shift[j]) * root[i];
    for (int64_t i = 0; i < rows; i++) {
        z[ones() * n + i] = root[i];
        z[labels() * n + i] = (rows_.y[from + i] - shift[labels()]) * root[i];
    }
    for (int64_t j = 0; j < k; j++)
        std::fill(z + j * n + rows, z + (j + 1) * n, 0.0);
    std::fill_n(z + k * n, n, 0.0);
}

// Adds to the lower half of (k + 1, k + 1).
void Sums::add_products(const Task &task, double *z, double *out) const {
    for (int64_t at = task.from; at < task.to && !cancelled(cancel_mark_); at += ROWS_AT_ONCE) {
        int64_t rows = std::min(ROWS_AT_ONCE, task.to - at);
        columns(at, rows, z);
        int64_t n = (rows + LANES - 1) / LANES * LANES;
        for (int64_t j = 0; j < k; j += 2)
            for (int64_t l = 0; l <= j; l += 2)
                add_four(z, n, j, l, out, k + 1);
    }
}

std::vector<double> Sums::without(int64_t skipped) const {
    std::vector<double> out(k * k);
    for (int64_t p = 0; p < parts(); p++)
        if (p != skipped)
            add(out.data(), 1.0, part(p), k * k);
    return out;
}

double Sums::squares(int64_t part, const std::vector<int32_t> &feature,
                     const std::vector<double> &weight, double intercept) const {
    std::vector<double> z(d * ROWS_AT_ONCE), margin(ROWS_AT_ONCE);
    double out = 0;
    int64_t end = start_[part + 1];
    for (int64_t at = start_[part]; at < end && !cancelled(cancel_mark_); at += ROWS_AT_ONCE) {
        int64_t n = std::min(ROWS_AT_ONCE, end - at);
        rows_.features->copy_rows(at, n, z.data());
        std::fill_n(margin.data(), n, intercept);
        for (size_t c = 0; c < feature.size(); c++) {
            add(margin.data(), weight[c], z.data() + feature[c] * n, n);
            for (int64_t i = 0; i < n; i++)
                margin[i] -= weight[c] * shift[feature[c]];
        }
        for (int64_t i = 0; i < n; i++) {
            double off = rows_.y[at + i] - shift[labels()] - margin[i];
            out += rows_.a[at + i] * off * off;
        }
    }
    return out;
}

} // namespace tusk
