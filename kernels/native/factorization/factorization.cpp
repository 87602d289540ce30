// Matrix factorization in memory, see factorization.hpp and train.hpp.
#include <cstring>

#include "../shared/pool.hpp"
#include "train.hpp"

namespace tusk {
namespace {

int run_epoch(Factorization &f, int64_t epoch, double step, int threads, bool lock_free,
              int64_t cancel_mark, double *loss) {
    const Rule rule = rule_for(f, step);
    const auto body = train_for<SideBySide>(f);
    const SideBySide users{f.users.vectors.data()}, items{f.items.vectors.data()};
    std::vector<double> sums((size_t)f.grid * f.grid);
    Turns turns(f, epoch);
    parallel_for(std::min(threads, f.grid), threads, [&](int64_t) {
        for (Turn turn; turns.next(turn, !lock_free); turns.finish(turn)) {
            const int64_t *start = &f.start[turn.block];
            const float *weights = f.weights.data() ? f.weights.data() + start[0] : nullptr;
            if (!cancelled(cancel_mark))
                sums[turn.block] = body(f.ratings.data() + start[0], start[1] - start[0], users,
                                        items, f.lines(), rule, weights);
        }
    });
    *loss = 0.5 * total_of(sums) * f.deviation * f.deviation;
    return cancelled(cancel_mark) ? TK_CANCELLED : TK_OK;
}

double square_error(const Factorization &f, int64_t k) {
    const Rating &r = f.ratings.data()[k];
    float e = r.value - predicted(f, f.users.vectors.data() + (int64_t)r.user * f.stride,
                                  f.items.vectors.data() + (int64_t)r.item * f.stride);
    return (double)(e * e) * (f.weights.data() ? f.weights.data()[k] : 1);
}

// The loss over rows outside the training. Ids that the training did not see have zero vectors.
double other_loss(const Factorization &f, const tk_pass *pass, const Chunk &chunk) {
    alignas(64) static const float zeros[4096 + 2 * LINE] = {};
    double sum = 0;
    for_ratings(pass, chunk, [&](auto user, auto item, double rating, double weight) {
        int32_t u = f.users.place[(size_t)user], i = f.items.place[(size_t)item];
        const float *p = u < 0 ? zeros : f.users.vectors.data() + (int64_t)u * f.stride;
        const float *q = i < 0 ? zeros : f.items.vectors.data() + (int64_t)i * f.stride;
        double e = (rating - f.mean) / f.deviation - predicted(f, p, q);
        sum += weight * e * e;
    });
    return sum;
}

} // namespace

void write_vector(const Factorization &f, const float *v, double *coef) {
    const double factor = std::sqrt(f.deviation);
    for (int32_t k = 0; k < f.width(); k++)
        coef[k] = v[k] * factor;
    if (f.biases)
        coef[0] = v[0] * f.deviation;
}

void write_side(const Factorization &f, const Side &side, double *coef) {
    for (int64_t id = 0; id < side.n_ids; id++, coef += f.width()) {
        if (side.place[id] < 0) {
            std::fill_n(coef, f.width(), 0.0);
            continue;
        }
        write_vector(f, side.vectors.data() + (int64_t)side.place[id] * f.stride, coef);
    }
}

void draw_side(const Factorization &f, const Side &side, bool items, float *vectors) {
    const uint64_t seed = scrambled(f.seed) + items;
    for (size_t place = 0; place < side.id.size(); place++) {
        float *v = vectors + (int64_t)place * f.stride;
        uint64_t state = state_of(seed, side.id[place]);
        for (int32_t k = 0; k < f.stride; k++)
            v[k] = k < f.width() ? start_of(f, state, k) : 0.0f;
    }
}

void draw_start(Factorization &f) {
    draw_side(f, f.users, false, f.users.vectors.data());
    draw_side(f, f.items, true, f.items.vectors.data());
}

void take_spec(const tk_factor_spec &spec, Factorization &f) {
    f.rank = spec.rank;
    f.biases = spec.biases;
    f.stride = (f.width() + LINE - 1) / LINE * LINE;
    f.l2 = spec.l2;
    f.l2_factors = spec.l2_factors;
    f.seed = spec.seed;
    f.block_bytes = spec.block_bytes;
    f.users.n_ids = spec.n_users;
    f.items.n_ids = spec.n_items;
}

} // namespace tusk

extern "C" {

int tk_factorization_new(const tk_pass *pass, tusk_memory *memory, const tk_factor_spec *spec,
                         tk_factorization **out) {
    using namespace tusk;
    *out = nullptr;
    return code_of([&]() -> int {
        auto f = std::make_unique<tk_factorization>();
        take_spec(*spec, *f);
        if (int code = read_ratings(pass, memory, *f))
            return code;
        f->memory = memory;
        if (spec->block_bytes) {
            *out = f.release();
            return TK_OK;
        }
        for (Side *side : {&f->users, &f->items})
            if (int code = side->vectors.take(memory, side->seen() * f->stride))
                return code;
        tk_factorization_start(f.get());
        *out = f.release();
        return TK_OK;
    });
}

void tk_factorization_start(tk_factorization *f) {
    tusk::draw_start(*f);
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
                           int lock_free, int64_t cancel_mark, double *sums) {
    return tusk::code_of([&] {
        int code = tusk::run_epoch(*f, epoch, step, threads, lock_free, cancel_mark, sums);
        sums[1] = tusk::penalty_of(*f);
        return code;
    });
}

int tk_factorization_objective(const tk_factorization *f, int threads, int64_t cancel_mark,
                               double *sums) {
    using namespace tusk;
    return code_of([&] {
        const int64_t blocks = (int64_t)f->grid * f->grid;
        std::vector<double> errors(blocks);
        parallel_for(blocks, threads, [&](int64_t block) {
            if (cancelled(cancel_mark))
                return;
            for (int64_t k = f->start[block]; k < f->start[block + 1]; k++)
                errors[block] += square_error(*f, k);
        });
        sums[0] = 0.5 * total_of(errors) * f->deviation * f->deviation;
        sums[1] = penalty_of(*f);
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
