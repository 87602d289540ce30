// Epochs of biased matrix factorization, see factorization.hpp.
//
// Threads. The ratings lie in grid x grid blocks; in an epoch's stratum s each range of users
// meets one range of items, so a stratum's blocks share no vector (Gemulla, Nijkamp, Haas,
// Sismanis, Large-scale matrix factorization with distributed stochastic gradient descent, KDD
// 2011). No barrier ends a stratum: a block runs as soon as the blocks before it of its users and
// of its items are done. Each vector so sees its ratings in one order, on however many threads.
#include "factorization.hpp"

#include <atomic>
#include <cmath>
#include <cstring>

#include "pool.hpp"
#include "rows.hpp"

namespace tusk {
namespace {

inline v16f load16(const float *p) {
    return *(const v16f *)p;
}
inline void store16(float *p, v16f v) {
    *(v16f *)p = v;
}
inline v16f splat16(float x) {
    return x - v16f{};
}
inline float sum16(v16f v) {
    using v8f = float __attribute__((vector_size(32)));
    using v4f = float __attribute__((vector_size(16)));
    v8f a = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
            __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
    v4f b = __builtin_shufflevector(a, a, 0, 1, 2, 3) + __builtin_shufflevector(a, a, 4, 5, 6, 7);
    b += __builtin_shufflevector(b, b, 2, 3, 0, 1);
    return b[0] + b[1];
}

// With biases, what each side multiplies with the other's bias is 1: m = b_u 1 + 1 b_i + p.q.
using v16i = int32_t __attribute__((vector_size(64)));
constexpr v16i FIRST = {-1};

// What a rating does to its vectors, in units of the deviation.
struct Rule {
    float step;
    v16f keep_first, keep; // 1 - step l2, of the first line and of the others
};

Rule rule_for(const Factorization &f, double step) {
    double factors = 1 - step * f.l2 / f.deviation;
    Rule rule{(float)step, splat16((float)factors), splat16((float)factors)};
    if (f.biases)
        rule.keep_first[0] = (float)(1 - step * f.l2);
    return rule;
}

constexpr int AHEAD = 6; // ratings whose vectors are on their way

// One gradient step for each of the ratings; returns the sum of squared errors. N: lines of a
// vector, 0: any number.
template <int N, bool Biases>
double train(const Rating *ratings, int64_t n, float *users, float *items, int lines,
             const Rule &rule) {
    const int64_t stride = (int64_t)(N ? N : lines) * LINE;
    const int count = N ? N : lines;
    double total = 0;
    for (int64_t k = 0; k < n; k++) {
        const Rating r = ratings[k];
        const Rating &next = ratings[std::min(k + AHEAD, n - 1)];
        float *p = users + r.user * stride, *q = items + r.item * stride;
        const float *next_p = users + next.user * stride, *next_q = items + next.item * stride;
        v16f a = load16(p), b = load16(q);
        v16f dot = Biases ? (FIRST ? a + b : a * b) : a * b;
        for (int l = 1; l < count; l++)
            dot += load16(p + l * LINE) * load16(q + l * LINE);
        float e = r.value - sum16(dot);
        total += (double)(e * e);
        v16f g = splat16(rule.step * e);
        store16(p, rule.keep_first * a + g * (Biases ? (FIRST ? splat16(1) : b) : b));
        store16(q, rule.keep_first * b + g * (Biases ? (FIRST ? splat16(1) : a) : a));
        __builtin_prefetch(next_p, 1);
        __builtin_prefetch(next_q, 1);
        for (int l = 1; l < count; l++) {
            v16f pl = load16(p + l * LINE), ql = load16(q + l * LINE);
            store16(p + l * LINE, rule.keep * pl + g * ql);
            store16(q + l * LINE, rule.keep * ql + g * pl);
            __builtin_prefetch(next_p + l * LINE, 1);
            __builtin_prefetch(next_q + l * LINE, 1);
        }
    }
    return total;
}

using Train = double (*)(const Rating *, int64_t, float *, float *, int, const Rule &);

template <bool Biases> Train train_for(int lines) {
    static constexpr Train table[] = {train<0, Biases>, train<1, Biases>, train<2, Biases>,
                                      train<3, Biases>, train<4, Biases>, train<5, Biases>,
                                      train<6, Biases>, train<7, Biases>, train<8, Biases>};
    return table[lines <= 8 ? lines : 0];
}

template <bool Biases> float predicted(const float *p, const float *q, int lines) {
    v16f a = load16(p), b = load16(q);
    v16f dot = Biases ? (FIRST ? a + b : a * b) : a * b;
    for (int l = 1; l < lines; l++)
        dot += load16(p + l * LINE) * load16(q + l * LINE);
    return sum16(dot);
}

double total_of(const std::vector<double> &sums) {
    double total = 0;
    for (double sum : sums)
        total += sum;
    return total;
}

// 0 .. n - 1 in a seeded order.
std::vector<int32_t> permutation(int32_t n, uint64_t seed) {
    std::vector<int32_t> order(n);
    for (int32_t k = 0; k < n; k++) {
        int32_t to = (int32_t)(scrambled(seed + (uint64_t)k) % (uint64_t)(k + 1));
        order[k] = order[to];
        order[to] = k;
    }
    return order;
}

// Which block comes when: number t is of stratum t / grid.
struct Strata {
    int32_t grid;
    std::vector<int32_t> users, items, shift;
    Strata(int32_t n, uint64_t seed)
        : grid(n), users(permutation(n, scrambled(seed))),
          items(permutation(n, scrambled(seed + 1))), shift(permutation(n, scrambled(seed + 2))) {}
    int32_t stratum(int64_t t) const { return (int32_t)(t / grid); }
    int32_t user_range(int64_t t) const { return users[t % grid]; }
    int32_t item_range(int64_t t) const { return items[(t % grid + shift[t / grid]) % grid]; }
};

// How many strata each range is through with.
class Progress {
public:
    explicit Progress(int32_t grid) : done_(grid) {}
    void wait(int32_t range, int32_t stratum) {
        for (int32_t seen; (seen = done_[range].load(std::memory_order_acquire)) < stratum;)
            done_[range].wait(seen, std::memory_order_acquire);
    }
    void finish(int32_t range) {
        done_[range].fetch_add(1, std::memory_order_release);
        done_[range].notify_all();
    }

private:
    std::vector<std::atomic<int32_t>> done_;
};

int run_epoch(Factorization &f, int64_t epoch, double step, int threads, bool lock_free,
              int64_t cancel_mark, double *loss) {
    const Rule rule = rule_for(f, step);
    const Train body = f.biases ? train_for<true>(f.lines()) : train_for<false>(f.lines());
    const Strata strata(f.grid, scrambled(f.seed) + 3 * (uint64_t)epoch);
    const int64_t blocks = (int64_t)f.grid * f.grid;
    Progress users(f.grid), items(f.grid);
    std::vector<double> sums(blocks);
    std::atomic<int64_t> next{0};
    // Blocks are drawn in their order, so what a block waits for is already with a thread.
    parallel_for(std::min<int64_t>(threads, f.grid), threads, [&](int64_t) {
        for (int64_t t; (t = next.fetch_add(1, std::memory_order_relaxed)) < blocks;) {
            int32_t a = strata.user_range(t), b = strata.item_range(t);
            if (!lock_free) {
                users.wait(a, strata.stratum(t));
                items.wait(b, strata.stratum(t));
            }
            int64_t block = (int64_t)a * f.grid + b;
            if (!cancelled(cancel_mark))
                sums[block] =
                    body(f.ratings.data() + f.start[block], f.start[block + 1] - f.start[block],
                         f.users.vectors.data(), f.items.vectors.data(), f.lines(), rule);
            users.finish(a);
            items.finish(b);
        }
    });
    *loss = 0.5 * total_of(sums) * f.deviation * f.deviation;
    return cancelled(cancel_mark) ? TK_CANCELLED : TK_OK;
}

// Of the size at which p.q starts; small, so that the biases come first.
constexpr double START = 0.03;

// Biases start at 0, factors uniform in +-sqrt(START / rank).
void draw(const Factorization &f, Side &side, uint64_t seed) {
    const float spread = (float)std::sqrt(START / f.rank);
    const int32_t first = f.biases ? 1 : 0;
    for (int64_t id = 0; id < side.n_ids; id++) {
        if (side.place[id] < 0)
            continue;
        float *v = side.vectors.data() + (int64_t)side.place[id] * f.stride;
        std::memset(v, 0, f.stride * sizeof *v);
        uint64_t state = scrambled(seed ^ (uint64_t)id);
        for (int32_t k = 0; k < f.rank; k++)
            v[first + k] = spread * ((float)(scrambled(state + (uint64_t)k) >> 40) * 0x1p-23f - 1);
    }
}

void write_side(const Factorization &f, const Side &side, double *coef) {
    const double factor = std::sqrt(f.deviation);
    for (int64_t id = 0; id < side.n_ids; id++, coef += f.width()) {
        if (side.place[id] < 0) {
            std::fill_n(coef, f.width(), 0.0);
            continue;
        }
        const float *v = side.vectors.data() + (int64_t)side.place[id] * f.stride;
        for (int32_t k = 0; k < f.width(); k++)
            coef[k] = v[k] * factor;
        if (f.biases)
            coef[0] = v[0] * f.deviation;
    }
}

// The sum over ratings of |vector|^2, in the caller's units.
double squares(const Factorization &f, const Side &side) {
    double bias = f.biases ? f.deviation * f.deviation : f.deviation, factor = f.deviation;
    double total = 0;
    for (int64_t place = 0; place < side.seen(); place++) {
        const float *v = side.vectors.data() + place * f.stride;
        v16f sum{};
        for (int l = 0; l < f.lines(); l++)
            sum += load16(v + l * LINE) * load16(v + l * LINE);
        double first = (double)v[0] * v[0];
        total += (factor * (sum16(sum) - first) + bias * first) * (double)side.count[place];
    }
    return total;
}

double penalty_of(const Factorization &f) {
    return f.l2 > 0 ? 0.5 * f.l2 * (squares(f, f.users) + squares(f, f.items)) : 0;
}

double square_error(const Factorization &f, int64_t user, int64_t item, float value) {
    const float *p = f.users.vectors.data() + user * f.stride;
    const float *q = f.items.vectors.data() + item * f.stride;
    float e =
        value - (f.biases ? predicted<true>(p, q, f.lines()) : predicted<false>(p, q, f.lines()));
    return (double)(e * e);
}

// Of rows that were not trained on; who was never seen there has a vector of zeros.
double other_loss(const Factorization &f, const tk_pass *pass, const Chunk &chunk) {
    alignas(64) static const float zeros[4096 + 2 * LINE] = {};
    double sum = 0;
    for_ratings(pass, chunk, [&](auto user, auto item, double rating) {
        int32_t u = f.users.place[(size_t)user], i = f.items.place[(size_t)item];
        const float *p = u < 0 ? zeros : f.users.vectors.data() + (int64_t)u * f.stride;
        const float *q = i < 0 ? zeros : f.items.vectors.data() + (int64_t)i * f.stride;
        float m = f.biases ? predicted<true>(p, q, f.lines()) : predicted<false>(p, q, f.lines());
        double e = (rating - f.mean) / f.deviation - m;
        sum += e * e;
    });
    return sum;
}

} // namespace
} // namespace tusk

extern "C" {

int tk_factorization_new(const tk_pass *pass, tusk_memory *memory, const tk_factor_spec *spec,
                         tk_factorization **out) {
    using namespace tusk;
    *out = nullptr;
    return code_of([&]() -> int {
        auto f = std::make_unique<tk_factorization>();
        f->rank = spec->rank;
        f->biases = spec->biases;
        f->stride = (f->width() + LINE - 1) / LINE * LINE;
        f->l2 = spec->l2;
        f->seed = spec->seed;
        f->users.n_ids = spec->n_users;
        f->items.n_ids = spec->n_items;
        if (int code = read_ratings(pass, memory, *f))
            return code;
        f->memory = memory;
        for (Side *side : {&f->users, &f->items})
            if (int code = side->vectors.take(memory, side->seen() * f->stride))
                return code;
        tk_factorization_start(f.get());
        *out = f.release();
        return TK_OK;
    });
}

void tk_factorization_start(tk_factorization *f) {
    uint64_t seed = tusk::scrambled(f->seed);
    tusk::draw(*f, f->users, seed);
    tusk::draw(*f, f->items, seed + 1);
}

int tk_factorization_keep(tk_factorization *f) {
    for (tusk::Side *side : {&f->users, &f->items}) {
        size_t n = (size_t)side->seen() * f->stride;
        if (!side->kept.data())
            if (int code = side->kept.take(f->memory, n))
                return code;
        std::memcpy(side->kept.data(), side->vectors.data(), n * sizeof(float));
    }
    return TK_OK;
}

void tk_factorization_restore(tk_factorization *f) {
    for (tusk::Side *side : {&f->users, &f->items})
        std::memcpy(side->vectors.data(), side->kept.data(),
                    (size_t)side->seen() * f->stride * sizeof(float));
}

void tk_factorization_free(tk_factorization *f) {
    delete f;
}

int tk_factorization_epoch(tk_factorization *f, int64_t epoch, double step, int threads,
                           int lock_free, int64_t cancel_mark, double *loss, double *penalty) {
    return tusk::code_of([&] {
        int code = tusk::run_epoch(*f, epoch, step, threads, lock_free, cancel_mark, loss);
        *penalty = tusk::penalty_of(*f);
        return code;
    });
}

int tk_factorization_objective(const tk_factorization *f, int threads, int64_t cancel_mark,
                               double *loss, double *penalty) {
    using namespace tusk;
    return code_of([&] {
        const int64_t blocks = (int64_t)f->grid * f->grid;
        std::vector<double> sums(blocks);
        parallel_for(blocks, threads, [&](int64_t block) {
            if (cancelled(cancel_mark))
                return;
            const Rating *ratings = f->ratings.data();
            for (int64_t k = f->start[block]; k < f->start[block + 1]; k++)
                sums[block] +=
                    square_error(*f, ratings[k].user, ratings[k].item, ratings[k].value);
        });
        *loss = 0.5 * total_of(sums) * f->deviation * f->deviation;
        *penalty = penalty_of(*f);
        return cancelled(cancel_mark) ? TK_CANCELLED : TK_OK;
    });
}

int tk_factorization_loss(const tk_factorization *f, const tk_pass *pass, double *loss) {
    using namespace tusk;
    return code_of([&] {
        std::vector<Chunk> chunks = make_chunks(pass, RATING_CHUNK);
        std::vector<double> sums(chunks.size());
        parallel_for((int64_t)chunks.size(), pass->threads, [&](int64_t c) {
            if (!cancelled(pass->cancel_mark))
                sums[c] = other_loss(*f, pass, chunks[c]);
        });
        *loss = 0.5 * total_of(sums) * f->deviation * f->deviation;
        return cancelled(pass->cancel_mark) ? TK_CANCELLED : TK_OK;
    });
}

void tk_factorization_write(const tk_factorization *f, double *mean, double *coef) {
    *mean = f->mean;
    tusk::write_side(*f, f->users, coef);
    tusk::write_side(*f, f->items, coef + f->users.n_ids * f->width());
}
}
