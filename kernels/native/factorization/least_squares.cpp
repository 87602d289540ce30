// Alternating least squares: minimises the objective over the users' vectors with the items'
// fixed, then over the items' with the users' fixed. Each vector is a small least-squares problem
// of its own ratings: Zhou, Wilkinson, Schreiber and Pan, Large-scale parallel collaborative
// filtering for the Netflix Prize, 2008. Long vectors are solved one line of numbers at a time
// with the other lines fixed, so that the work grows linearly with the number of lines: Rendle,
// Krichene, Zhang and Koren, iALS++: Speeding up matrix factorization with subspace optimization,
// 2021.
//
// A rating's residual and its line are multiplied by the root of its weight. A vector's ratings
// come in the order of the blocks, so the result is the same for any number of threads. We solve
// for the change of a line, from the residuals of the ratings: the next pass then corrects float's
// rounding errors. A change multiplied by less than 2 lowers the objective too, and over several
// passes it converges faster: successive over-relaxation, Young, Iterative Solution of Large
// Linear Systems, 1971.
#include <algorithm>
#include <atomic>

#include "../shared/pool.hpp"
#include "train.hpp"

namespace tusk {
namespace {

constexpr int BATCH = 256; // ratings whose lines are copied into contiguous memory; they fit into
                           // L1
constexpr int TILE = 4;    // rows of a matrix that fit into registers
// Share of the diagonal's mean that is added to the diagonal. It keeps directions that the ratings
// do not determine fixed.
constexpr float DAMPING = 3e-6f;

// The index of a rating's other vector, and the rating's residual.
struct Rest {
    int32_t place;
    float left;
};

// Some ratings of a vector, and the roots of their weights; NULL: all are 1.
struct Rests {
    Rest *rest;
    float *root;
    float scale(int64_t k) const { return root ? root[k] : 1; }
    Rests from(int64_t k) const { return {rest + k, root ? root + k : nullptr}; }
};

struct alignas(64) Room {
    float x[BATCH][LINE];
    float e[BATCH];
    float matrix[LINE][LINE];
    float right[LINE];
};

// One half of a pass: the side to solve for.
struct Half {
    Factorization &f;
    Side &mine;
    const Side &theirs;
    bool users;
    float relax;

    int64_t block(int32_t range, int32_t other) const {
        return users ? (int64_t)range * f.grid + other : (int64_t)other * f.grid + range;
    }
    int32_t own(const Rating &r) const { return users ? r.user : r.item; }
    int32_t other(const Rating &r) const { return users ? r.item : r.user; }
    const float *line(const Rest &rest, int l) const {
        return theirs.vectors.data() + (int64_t)rest.place * f.stride + l * LINE;
    }
    int64_t most() const { // number of ratings of the largest range
        int64_t found = 0;
        for (int32_t range = 0; range < f.grid; range++) {
            int64_t here = 0;
            for (int32_t k = 0; k < f.grid; k++)
                here += f.start[block(range, k) + 1] - f.start[block(range, k)];
            found = std::max(found, here);
        }
        return found;
    }
};

// Adds the outer products of `n` lines, and the lines times the residuals.
void add_products(Room &room, int n, int d) {
    for (int r = 0; r < d; r += TILE) {
        v8f low[TILE] = {}, high[TILE] = {};
        for (int k = 0; k < n; k++) {
            const v8f a = *(const v8f *)room.x[k], b = *(const v8f *)(room.x[k] + 8);
            for (int t = 0; t < TILE; t++) {
                low[t] += room.x[k][r + t] * a;
                high[t] += room.x[k][r + t] * b;
            }
        }
        for (int t = 0; t < TILE; t++) {
            *(v8f *)room.matrix[r + t] += low[t];
            *(v8f *)(room.matrix[r + t] + 8) += high[t];
        }
    }
    v8f low{}, high{};
    for (int k = 0; k < n; k++) {
        low += room.e[k] * *(const v8f *)room.x[k];
        high += room.e[k] * *(const v8f *)(room.x[k] + 8);
    }
    *(v8f *)room.right += low;
    *(v8f *)(room.right + 8) += high;
}

// Solves the first d equations, which are positive definite. The rest of `out` is zero.
void eliminate(Room &room, int d, float *out) {
    for (int j = 0; j < d; j++)
        for (int i = j + 1; i < d; i++) {
            const float by = room.matrix[i][j] / room.matrix[j][j];
            for (int c = 0; c < LINE; c++)
                room.matrix[i][c] -= by * room.matrix[j][c];
            room.right[i] -= by * room.right[j];
        }
    std::fill_n(out, LINE, 0.0f);
    for (int j = d; j-- > 0;) {
        float known = 0;
        for (int c = j + 1; c < d; c++)
            known += room.matrix[j][c] * out[c];
        out[j] = (room.right[j] - known) / room.matrix[j][j];
    }
}

// Copies the lines and residuals of the first `n` ratings into contiguous memory.
void pack(const Half &half, Rests rests, int n, int l, Room &room) {
    const bool first = l == 0 && half.f.biases;
    for (int k = 0; k < n; k++) {
        v16f x = load16(half.line(rests.rest[k], l));
        if (first)
            x = with_first(splat16(1), x);
        store16(room.x[k], rests.root ? splat16(rests.root[k]) * x : x);
        room.e[k] = rests.rest[k].left;
    }
}

// Minimises the objective over one line of a vector. mass: the sum of the weights of its ratings.
void solve_line(const Half &half, float *vector, Rests rests, int64_t n, double mass, int l,
                Room &room) {
    const Factorization &f = half.f;
    const int d = std::min(LINE, f.width() - l * LINE);
    const float penalty = (float)(f.l2_factors / f.deviation * mass);
    std::fill_n(&room.matrix[0][0], LINE * LINE, 0.0f);
    std::fill_n(room.right, LINE, 0.0f);
    for (int64_t k = 0; k < n; k += BATCH) {
        const int m = (int)std::min<int64_t>(BATCH, n - k);
        pack(half, rests.from(k), m, l, room);
        add_products(room, m, d);
    }
    float trace = 0;
    for (int j = 0; j < d; j++) {
        const float own = l == 0 && j < f.biases ? (float)(f.l2 * mass) : penalty;
        room.matrix[j][j] += own;
        room.right[j] -= own * vector[l * LINE + j];
        trace += room.matrix[j][j];
    }
    for (int j = 0; j < d; j++)
        room.matrix[j][j] += DAMPING * trace / (float)d + 1e-30f;
    alignas(64) float change[LINE];
    eliminate(room, d, change);
    const v16f by = splat16(half.relax) * load16(change);
    store16(vector + l * LINE, load16(vector + l * LINE) + by);
    if (half.users && l + 1 == f.lines()) // the residuals are not needed: the items come next
        return;
    for (int64_t k = 0; k < n; k += BATCH) {
        const int m = (int)std::min<int64_t>(BATCH, n - k);
        if (n > BATCH)
            pack(half, rests.from(k), m, l, room);
        for (int i = 0; i < m; i++)
            rests.rest[k + i].left -= sum16(load16(room.x[i]) * by);
    }
}

// Solves for the vector of an index and returns the weighted sum of its ratings' squared
// residuals.
double solve_vector(const Half &half, int32_t place, Rests rests, Room &room) {
    float *vector = half.mine.vectors.data() + (int64_t)place * half.f.stride;
    const int64_t n = half.mine.count[place];
    for (int64_t k = 0; k < n; k++) {
        Rest &one = rests.rest[k];
        one.left = rests.scale(k) * (one.left - predicted(half.f, vector, half.line(one, 0)));
    }
    for (int l = 0; l < half.f.lines(); l++)
        solve_line(half, vector, rests, n, half.mine.weight(place), l, room);
    double total = 0;
    for (int64_t k = 0; k < n; k++)
        total += (double)rests.rest[k].left * rests.rest[k].left;
    return total;
}

// Collects all ratings of a range, grouped by vector.
void gather(const Half &half, int32_t range, Rests rests, std::vector<int64_t> &at) {
    const Factorization &f = half.f;
    const int32_t first = half.mine.first[range], end = half.mine.first[range + 1];
    at.assign((size_t)(end - first) + 1, 0);
    for (int32_t p = first; p < end; p++)
        at[p - first + 1] = at[p - first] + half.mine.count[p];
    for (int32_t k = 0; k < f.grid; k++) {
        const int64_t block = half.block(range, k);
        for (int64_t i = f.start[block]; i < f.start[block + 1]; i++) {
            const Rating &r = f.ratings.data()[i];
            const int64_t to = at[half.own(r) - first]++;
            rests.rest[to] = {half.other(r), r.value};
            if (rests.root)
                rests.root[to] = std::sqrt(f.weights.data()[i]);
        }
    }
}

double solve_range(const Half &half, int32_t range, Rests rests, std::vector<int64_t> &at,
                   Room &room, int64_t cancel_mark) {
    gather(half, range, rests, at);
    double total = 0;
    for (int32_t p = half.mine.first[range]; p < half.mine.first[range + 1]; p++) {
        if (cancelled(cancel_mark))
            return total;
        total += solve_vector(half, p, rests, room);
        rests = rests.from(half.mine.count[p]);
    }
    return total;
}

// Solves for all vectors of one side and returns a tk_code. loss: the sum of squared residuals, in
// units of the deviation.
int solve_side(const Half &half, int threads, int64_t cancel_mark, double *loss) {
    const Factorization &f = half.f;
    const size_t most = (size_t)half.most();
    std::vector<double> sums(f.grid);
    std::atomic<int32_t> next{0};
    std::atomic<int> failed{TK_OK};
    parallel_for(std::min(threads, f.grid), threads, [&](int64_t) {
        Charged<Rest> rests;
        Charged<float> roots;
        int code = rests.take(f.memory, most);
        if (!code && f.weights.data())
            code = roots.take(f.memory, most);
        if (code) {
            failed = code;
            return;
        }
        auto room = std::make_unique<Room>();
        std::vector<int64_t> at;
        for (int32_t range; (range = next.fetch_add(1)) < f.grid && !cancelled(cancel_mark);)
            sums[range] =
                solve_range(half, range, {rests.data(), roots.data()}, at, *room, cancel_mark);
    });
    *loss = total_of(sums);
    return cancelled(cancel_mark) ? TK_CANCELLED : failed.load();
}

} // namespace
} // namespace tusk

int tk_factorization_solve(tk_factorization *f, double relax, int threads, int64_t cancel_mark,
                           double *sums) {
    using namespace tusk;
    return code_of([&] {
        double left = 0;
        int code =
            solve_side({*f, f->users, f->items, true, (float)relax}, threads, cancel_mark, &left);
        if (!code)
            code = solve_side({*f, f->items, f->users, false, (float)relax}, threads, cancel_mark,
                              &left);
        sums[0] = 0.5 * left * f->deviation * f->deviation;
        sums[1] = penalty_of(*f);
        return code;
    });
}
