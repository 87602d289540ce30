// Weighted alternating least squares. With the items' vectors fixed, a user's best vector solves
//
//     A x = b,  A = Y'Y + l2 I + sum of (c_ui - 1) y_i y_i',  b = sum of c_ui y_i,
//
// the sums over the user's items alone, because Y'Y is the same for all users (Hu, Koren,
// Volinsky 2008, section 4). Some steps of conjugate gradient from the vector as it is need no A:
// Takacs, Pilaszy, Tikk, Applications of the Conjugate Gradient Method for Implicit Feedback
// Collaborative Filtering, RecSys 2011. Both ways begin at the residual b - A x, so that later
// passes correct float's rounding errors.
//
// A vector's share of the objective is x'A x - 2 b'x, plus its confidences. It is
// -(b'x + x'(b - A x)) at the start, and each change lowers it by a product that is known anyway.
#include <cmath>
#include <cstring>

#include "../../shared/pool.hpp"
#include "interactions.hpp"

namespace tusk {
namespace {

constexpr int BATCH = 64; // vectors whose products are added together
constexpr int TILE = 8;   // rows of a matrix that fit into registers
constexpr int MOST_LINES = 4096 / LINE + 1;
constexpr int64_t GRAM_BYTES = 1 << 26, GRAM_PARTS = 64, GRAM_VECTORS = 512;
constexpr float LEAST = 1e-20f;      // a squared residual that needs no step
constexpr float LEAST_PIVOT = 1e-7f; // relative to the diagonal's mean

// One half of a pass: the side to solve for.
struct Half {
    Interactions &f;
    Side &mine;
    const Side &theirs;
    const Lists &lists;
    const float *gram;
    int cg_steps;
    const float *other(const Entry &e) const {
        return theirs.vectors.data() + (int64_t)e.place * f.stride;
    }
};

// Buffers of one thread: vectors of the solution, and for Cholesky the matrix and a batch.
struct Room {
    Charged<float> memory;
    float *r, *p, *ap, *matrix, *plain, *scaled;
    int take(const Interactions &f, bool matrix_too) {
        const size_t s = f.stride, n = 3 * s + (matrix_too ? s * s + 2 * BATCH * s : 0);
        if (int code = memory.take(f.memory, n))
            return code;
        r = memory.data();
        p = r + s;
        ap = p + s;
        matrix = ap + s;
        plain = matrix + s * s;
        scaled = plain + BATCH * s;
        return TK_OK;
    }
};

template <int N> double dot(const float *a, const float *b, int lines) {
    v16f sum{};
    for (int l = 0; l < (N ? N : lines); l++)
        sum += load16(a + l * LINE) * load16(b + l * LINE);
    return sum16(sum);
}

// a += by * b
template <int N> void add(float *a, float by, const float *b, int lines) {
    for (int l = 0; l < (N ? N : lines); l++)
        store16(a + l * LINE, load16(a + l * LINE) + splat16(by) * load16(b + l * LINE));
}

// out = gram p
template <int N> void times(const Half &h, const float *p, float *out) {
    const int lines = N ? N : h.f.lines();
    v16f sum[N ? N : MOST_LINES] = {};
    for (int j = 0; j < h.f.width(); j++) {
        const float *row = h.gram + (int64_t)j * lines * LINE;
        const v16f by = splat16(p[j]);
        for (int l = 0; l < lines; l++)
            sum[l] += by * load16(row + l * LINE);
    }
    for (int l = 0; l < lines; l++)
        store16(out + l * LINE, sum[l]);
}

// The residual b - A x in r. value: b'x; weight: the sum of confidences.
template <int N>
void residual(const Half &h, int64_t place, const float *x, float *r, double *value,
              double *weight) {
    const int lines = N ? N : h.f.lines();
    times<N>(h, x, r);
    const Entry *e = h.lists.of(place);
    const int64_t n = h.lists.count[place];
    v16f sum[N ? N : MOST_LINES] = {};
    double with = 0, all = 0;
    for (int64_t k = 0; k < n; k++) {
        const float *y = h.other(e[k]);
        const float *next = h.other(e[std::min(k + AHEAD, n - 1)]);
        v16f product = load16(y) * load16(x);
        for (int l = 1; l < lines; l++)
            product += load16(y + l * LINE) * load16(x + l * LINE);
        const float m = sum16(product), c = 1 + e[k].extra;
        const v16f by = splat16(c - e[k].extra * m);
        for (int l = 0; l < lines; l++) {
            __builtin_prefetch(next + l * LINE);
            sum[l] += by * load16(y + l * LINE);
        }
        with += (double)(c * m);
        all += c;
    }
    for (int l = 0; l < lines; l++)
        store16(r + l * LINE, sum[l] + splat16(-1) * load16(r + l * LINE));
    *value = with;
    *weight = all;
}

// out = A p
template <int N> void apply(const Half &h, int64_t place, const float *p, float *out) {
    const int lines = N ? N : h.f.lines();
    times<N>(h, p, out);
    const Entry *e = h.lists.of(place);
    v16f sum[N ? N : MOST_LINES] = {};
    for (int64_t k = 0; k < h.lists.count[place]; k++) {
        const float *y = h.other(e[k]);
        v16f product = load16(y) * load16(p);
        for (int l = 1; l < lines; l++)
            product += load16(y + l * LINE) * load16(p + l * LINE);
        const v16f by = splat16(e[k].extra * sum16(product));
        for (int l = 0; l < lines; l++)
            sum[l] += by * load16(y + l * LINE);
    }
    for (int l = 0; l < lines; l++)
        store16(out + l * LINE, sum[l] + load16(out + l * LINE));
}

// The largest power of two below a vector's largest number; 1 for a vector of zeros.
float unit_of(const float *a, int lines) {
    float most = 0;
    for (int k = 0; k < lines * LINE; k++)
        most = std::max(most, std::abs(a[k]));
    return most > 0 && std::isfinite(most) ? std::ldexp(1.0f, std::ilogb(most)) : 1;
}

// Makes steps of conjugate gradient from x with the residual in room.r. Returns the decrease of
// the objective. Residuals are in a unit that keeps the squares of large confidences in range.
template <int N> double descend(const Half &h, int64_t place, float *x, Room &room) {
    const int lines = N ? N : h.f.lines();
    const float unit = unit_of(room.r, lines);
    for (int k = 0; k < lines * LINE; k++)
        room.p[k] = room.r[k] /= unit;
    const double square = (double)unit * unit;
    double left = dot<N>(room.r, room.r, lines), gained = 0;
    for (int step = 0; step < h.cg_steps && left * square >= LEAST; step++) {
        apply<N>(h, place, room.p, room.ap);
        const double curvature = dot<N>(room.p, room.ap, lines);
        if (!(curvature > 0))
            break;
        const float by = (float)(left / curvature);
        add<N>(x, by * unit, room.p, lines);
        add<N>(room.r, -by, room.ap, lines);
        gained += by * left * square;
        const double now = dot<N>(room.r, room.r, lines);
        const v16f share = splat16((float)(now / left));
        for (int l = 0; l < lines; l++)
            store16(room.p + l * LINE,
                    load16(room.r + l * LINE) + share * load16(room.p + l * LINE));
        left = now;
    }
    return gained;
}

// Adds to the upper triangle of a matrix the products of n vectors, one of each pair scaled.
void add_products(float *matrix, const float *plain, const float *scaled, int n, int width,
                  int lines) {
    const int64_t stride = (int64_t)lines * LINE;
    for (int r = 0; r < width; r += TILE)
        for (int l = r / LINE; l < lines; l++) {
            v16f sum[TILE] = {};
            for (int k = 0; k < n; k++) {
                const v16f y = load16(plain + k * stride + l * LINE);
                const float *by = scaled + k * stride + r;
                for (int t = 0; t < TILE; t++)
                    sum[t] += splat16(by[t]) * y;
            }
            for (int t = 0; t < TILE; t++) {
                float *to = matrix + (r + t) * stride + l * LINE;
                store16(to, load16(to) + sum[t]);
            }
        }
}

// Solves for p, given the upper triangle of a positive definite matrix and the right side in p.
void eliminate(float *matrix, float *p, int width, int lines) {
    const int64_t stride = (int64_t)lines * LINE;
    float trace = 0;
    for (int j = 0; j < width; j++)
        trace += matrix[j * stride + j];
    const float least = LEAST_PIVOT * trace / (float)width + 1e-30f;
    for (int j = 0; j < width; j++) {
        float *row = matrix + j * stride;
        row[j] = std::max(row[j], least);
        for (int i = j + 1; i < width; i++) {
            const float by = -row[i] / row[j];
            float *to = matrix + i * stride;
            for (int l = i / LINE; l < lines; l++)
                store16(to + l * LINE,
                        load16(to + l * LINE) + splat16(by) * load16(row + l * LINE));
            p[i] += by * p[j];
        }
    }
    for (int j = width; j-- > 0;) {
        const float *row = matrix + j * stride;
        float known = 0;
        for (int c = j + 1; c < width; c++)
            known += row[c] * p[c];
        p[j] = (p[j] - known) / row[j];
    }
}

// Solves A d = r and adds d to x, like `descend`.
template <int N> double solve(const Half &h, int64_t place, float *x, Room &room) {
    const int lines = N ? N : h.f.lines();
    const int64_t stride = (int64_t)lines * LINE, n = h.lists.count[place];
    const Entry *e = h.lists.of(place);
    std::memcpy(room.matrix, h.gram, sizeof(float) * stride * stride);
    for (int64_t k = 0; k < n; k += BATCH) {
        const int m = (int)std::min<int64_t>(BATCH, n - k);
        for (int i = 0; i < m; i++)
            for (int l = 0; l < lines; l++) {
                const v16f y = load16(h.other(e[k + i]) + l * LINE);
                store16(room.plain + i * stride + l * LINE, y);
                store16(room.scaled + i * stride + l * LINE, splat16(e[k + i].extra) * y);
            }
        add_products(room.matrix, room.plain, room.scaled, m, h.f.width(), lines);
    }
    std::memcpy(room.p, room.r, sizeof(float) * stride);
    eliminate(room.matrix, room.p, h.f.width(), lines);
    add<N>(x, 1, room.p, lines);
    return dot<N>(room.p, room.r, lines);
}

// Solves for the vectors of a task's indices. Returns their part of the objective.
template <int N> double solve_task(const Half &h, int64_t task, Room &room, int64_t cancel_mark) {
    const int lines = N ? N : h.f.lines();
    double total = 0;
    for (int32_t place = h.lists.cut[task]; place < h.lists.cut[task + 1]; place++) {
        if (cancelled(cancel_mark))
            break;
        float *x = h.mine.vectors.data() + (int64_t)place * lines * LINE;
        double value, weight;
        residual<N>(h, place, x, room.r, &value, &weight);
        total += weight - value - dot<N>(x, room.r, lines);
        if (h.cg_steps >= 0)
            total -= h.cg_steps ? descend<N>(h, place, x, room) : solve<N>(h, place, x, room);
    }
    return total;
}

using SolveTask = double (*)(const Half &, int64_t, Room &, int64_t);
template <int... N> SolveTask solve_for(int lines, std::integer_sequence<int, N...>) {
    static constexpr SolveTask table[] = {solve_task<N>...};
    return table[lines < (int)sizeof...(N) ? lines : 0];
}

// Solves for all vectors of a side; cg_steps -1: for none. objective: the sum, without the other
// side's penalty. Returns a tk_code.
int solve_side(const Half &h, int threads, int64_t cancel_mark, double *objective) {
    const auto body = solve_for(h.f.lines(), std::make_integer_sequence<int, 9>{});
    const int64_t tasks = (int64_t)h.lists.cut.size() - 1;
    std::vector<double> sums(tasks);
    std::atomic<int64_t> next{0};
    std::atomic<int> failed{TK_OK};
    parallel_for(std::min<int64_t>(threads, tasks), threads, [&](int64_t) {
        Room room;
        if (int code = room.take(h.f, h.cg_steps == 0)) {
            failed = code;
            return;
        }
        for (int64_t task; (task = next.fetch_add(1)) < tasks && !cancelled(cancel_mark);)
            sums[task] = body(h, task, room, cancel_mark);
    });
    *objective = total_of(sums);
    return cancelled(cancel_mark) ? TK_CANCELLED : failed.load();
}

double penalty(const Interactions &f, const Side &side) {
    double total = 0;
    for (int64_t place = 0; place < side.seen(); place++)
        total += 2 * penalty_of(f, side.vectors.data() + place * f.stride, f.deviation);
    return total;
}

// One half of a pass, or with cg_steps -1 the objective only.
int half(Interactions &f, bool users, int cg_steps, int threads, int64_t cancel_mark,
         double *objective) {
    Side &mine = users ? f.users : f.items, &theirs = users ? f.items : f.users;
    Charged<float> gram;
    if (int code = gram_of(f, theirs, f.l2, threads, cancel_mark, gram))
        return code;
    const Half h{f, mine, theirs, users ? f.by_user : f.by_item, gram.data(), cg_steps};
    int code = solve_side(h, threads, cancel_mark, objective);
    *objective += penalty(f, theirs);
    return code;
}

} // namespace

int gram_of(const Interactions &f, const Side &side, double l2, int threads, int64_t cancel_mark,
            Charged<float> &gram) {
    const int64_t s = f.stride, size = s * s, n = side.seen();
    const int64_t parts =
        std::clamp<int64_t>(std::min(GRAM_BYTES / (size * 4), n / GRAM_VECTORS), 1, GRAM_PARTS);
    Charged<float> sums;
    int code = sums.take(f.memory, parts * size);
    if (!code)
        code = gram.take(f.memory, size);
    if (code)
        return code;
    std::fill_n(sums.data(), parts * size, 0.0f);
    parallel_for(parts, threads, [&](int64_t part) {
        const int64_t end = n * (part + 1) / parts;
        for (int64_t k = n * part / parts; k < end && !cancelled(cancel_mark); k += BATCH) {
            const float *y = side.vectors.data() + k * s;
            add_products(sums.data() + part * size, y, y, (int)std::min<int64_t>(BATCH, end - k),
                         f.width(), f.lines());
        }
    });
    for (int64_t r = 0; r < s; r++)
        for (int64_t c = r; c < s; c++) {
            double sum = r == c && r < f.width() ? l2 : 0;
            for (int64_t part = 0; part < parts; part++)
                sum += sums.data()[part * size + r * s + c];
            gram.data()[r * s + c] = gram.data()[c * s + r] = (float)sum;
        }
    return cancelled(cancel_mark) ? TK_CANCELLED : TK_OK;
}

} // namespace tusk

extern "C" {

int tk_interactions_solve(tk_interactions *f, int cg_steps, int threads, int64_t cancel_mark,
                          double *objective) {
    using namespace tusk;
    return code_of([&] {
        int code = half(*f, true, cg_steps, threads, cancel_mark, objective);
        return code ? code : half(*f, false, cg_steps, threads, cancel_mark, objective);
    });
}

int tk_interactions_objective(tk_interactions *f, int threads, int64_t cancel_mark,
                              double *objective) {
    using namespace tusk;
    return code_of([&] { return half(*f, false, -1, threads, cancel_mark, objective); });
}
}
