#include "passes.hpp"

#include <atomic>
#include <cmath>
#include <limits>

#include "../shared/values.hpp"

namespace tusk::clusters {
namespace {

constexpr int64_t CHUNK_ROWS = 2048;
constexpr int64_t MOST_CHUNKS = 64, MOST_SUMS = 1 << 23; // limits on chunks of a pass, and on the
                                                         // numbers of its sums
constexpr int64_t BLOCK = 4;                             // rows that are measured together

// The squared distances of R dense rows to the eight centres of a panel.
template <class T, int R>
inline void measure_panel(const T *x, int64_t d, const double *panel, v8d begun, int64_t stride,
                          double *out) {
    v8d sum[R];
    for (int r = 0; r < R; r++)
        sum[r] = begun;
    for (int64_t j = 0; j < d; j++) {
        v8d c = load(panel + j * LANES);
        for (int r = 0; r < R; r++) {
            v8d t = splat((double)x[r * d + j]) - c;
            sum[r] += t * t;
        }
    }
    for (int r = 0; r < R; r++)
        store(out + r * stride, sum[r]);
}

// The same for one sparse row. For a feature that some rows lack, `begun` includes the square of
// the centre, which a row with the feature subtracts again.
template <class T>
inline void measure_sparse(const T *x, const int32_t *id, int64_t n, const double *lacking,
                           const double *panel, v8d begun, double *out) {
    v8d sum = begun;
    for (int64_t e = 0; e < n; e++) {
        v8d c = load(panel + (int64_t)id[e] * LANES), t = splat((double)x[e]) - c;
        sum += t * t - c * c * splat(lacking[id[e]]);
    }
    store(out, vmax(sum, splat(0)));
}

// The nearest of the centres; the previous one unless another is nearer.
inline int32_t nearest_of(const double *distance, int64_t k, int32_t before) {
    int32_t best = before < 0 ? 0 : before;
    double least = distance[best];
    for (int32_t j = 0; j < (int32_t)k; j++)
        if (distance[j] < least) {
            least = distance[j];
            best = j;
        }
    return best;
}

} // namespace

int Centres::take(tusk_memory *memory, int64_t most, int64_t features) {
    d = features;
    int64_t padded = (most + 7) / 8 * 8;
    int code = memory_.take(memory, (size_t)(padded * (2 * d + 1)));
    rows_ = memory_.data();
    panels_ = rows_ + padded * d;
    begun_ = panels_ + padded * d;
    return code;
}

void Centres::lay_out(int64_t count, const Points &points) {
    k = count;
    for (int64_t j = 0; j < padded(); j++)
        lay_out_one(j, points);
}

void Centres::lay_out_one(int64_t j, const Points &points) {
    double *to = panels_ + j / LANES * LANES * d + j % LANES, square = 0;
    for (int64_t i = 0; i < d; i++) {
        double c = j < k ? of(j)[i] : 0;
        to[i * LANES] = c;
        square += points.sparse ? c * c * points.lacking()[i] : 0;
    }
    begun_[j] = j < k ? square : std::numeric_limits<double>::infinity();
}

int Passes::take(tusk_memory *memory, int64_t most_centres) {
    width_ = most_centres * (points_.d + 1);
    int64_t chunks = (points_.n + CHUNK_ROWS - 1) / CHUNK_ROWS;
    most_chunks_ = std::clamp<int64_t>(MOST_SUMS / width_, 1, std::min(MOST_CHUNKS, chunks));
    int code = nearest_.take(memory, (size_t)points_.n);
    code = code ? code : distance_.take(memory, (size_t)points_.n);
    code = code ? code : sums_.take(memory, (size_t)(most_chunks_ * width_));
    if (!code)
        std::fill_n(nearest_.data(), points_.n, NOWHERE);
    return code;
}

template <class T>
void Passes::distances(const Centres &c, int64_t first, int64_t n, double *out) const {
    const int64_t padded = c.padded(), d = points_.d;
    const T *x = points_.values<T>();
    for (int64_t j = 0; j < padded; j += LANES) {
        v8d begun = load(c.begun() + j);
        if (points_.sparse)
            for (int64_t i = 0; i < n; i++) {
                int64_t at = points_.start()[first + i];
                measure_sparse(x + at, points_.id() + at, points_.start()[first + i + 1] - at,
                               points_.lacking(), c.panel(j), begun, out + i * padded + j);
            }
        else if (n == BLOCK)
            measure_panel<T, BLOCK>(x + first * d, d, c.panel(j), begun, padded, out + j);
        else
            for (int64_t i = 0; i < n; i++)
                measure_panel<T, 1>(x + (first + i) * d, d, c.panel(j), begun, padded,
                                    out + i * padded + j);
    }
}

template <class T> void Passes::add(const Centres &c, int64_t row, int64_t centre, Sums *s) const {
    const double weight = points_.weight()[row];
    double *to = s->moved + centre * points_.d;
    const double *from = c.of(centre);
    const T *x = points_.values<T>();
    s->weight[centre] += weight;
    if (!points_.sparse) {
        x += row * points_.d;
        for (int64_t j = 0; j < points_.d; j++)
            to[j] += weight * ((double)x[j] - from[j]);
        return;
    }
    for (int64_t e = points_.start()[row]; e < points_.start()[row + 1]; e++) {
        int32_t j = points_.id()[e];
        to[j] += weight * ((double)x[e] - (points_.lacking()[j] != 0 ? 0 : from[j]));
    }
}

template <class T>
void Passes::run_rows(const Centres &c, int64_t first, int64_t n, Sums *s) const {
    std::vector<double> found((size_t)(BLOCK * c.padded()));
    for (int64_t i = first, some; i < first + n; i += some) {
        some = std::min(BLOCK, first + n - i);
        distances<T>(c, i, some, found.data());
        for (int64_t r = 0; r < some; r++) {
            const double *to = found.data() + r * c.padded();
            int32_t before = nearest_.data()[i + r], now = nearest_of(to, c.k, before);
            s->changed += now != before;
            nearest_.data()[i + r] = now;
            distance_.data()[i + r] = to[now];
            s->loss += points_.weight()[i + r] * to[now];
            add<T>(c, i + r, now, s);
        }
    }
}

int Passes::run(const Centres &c, int64_t first, int64_t n, bool whole, Sums *sums) {
    const int64_t width = c.k * (points_.d + 1);
    const int64_t chunks = std::clamp<int64_t>(n / CHUNK_ROWS, 1, most_chunks_);
    std::vector<Sums> parts((size_t)chunks);
    std::atomic<int> code{TK_OK};
    parallel_for(chunks, threads_, [&](int64_t part) {
        double *to = sums_.data() + part * width;
        Sums &s = parts[(size_t)part];
        s = {to, to + c.k * points_.d, 0, 0};
        std::fill_n(to, width, 0.0);
        int64_t end = first + n * (part + 1) / chunks;
        for (int64_t at = first + n * part / chunks, some; at < end; at += some) {
            int why = ending(pass_.cancel_mark, whole ? 0 : pass_.deadline);
            if (why || code) {
                code = why ? why : code.load();
                return;
            }
            some = std::min(CHUNK_ROWS, end - at);
            points_.f64 ? run_rows<double>(c, at, some, &s) : run_rows<float>(c, at, some, &s);
        }
    });
    if (code)
        return code;
    *sums = parts[0];
    for (int64_t part = 1; part < chunks; part++) {
        const Sums &s = parts[(size_t)part];
        sums->loss += s.loss;
        sums->changed += s.changed;
        for (int64_t i = 0; i < width; i++)
            sums->moved[i] += s.moved[i];
    }
    return TK_OK;
}

void Passes::measure_row(const Centres &c, int64_t row, double *out) const {
    points_.f64 ? distances<double>(c, row, 1, out) : distances<float>(c, row, 1, out);
}

int Passes::measure(const Centres &c, int64_t n, double *out) const {
    std::atomic<int> code{TK_OK};
    parallel_for((n + CHUNK_ROWS - 1) / CHUNK_ROWS, threads_, [&](int64_t part) {
        if (int why = ending(pass_.cancel_mark, pass_.deadline)) {
            code = why;
            return;
        }
        int64_t end = std::min(n, (part + 1) * CHUNK_ROWS);
        for (int64_t i = part * CHUNK_ROWS; i < end; i += BLOCK) {
            int64_t some = std::min(BLOCK, end - i);
            points_.f64 ? distances<double>(c, i, some, out + i * c.padded())
                        : distances<float>(c, i, some, out + i * c.padded());
        }
    });
    return code;
}

} // namespace tusk::clusters
