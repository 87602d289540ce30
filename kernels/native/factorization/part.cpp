// The ratings of a part's users. Blocks of items visit one part after the other, with their
// vectors (Gemulla, Nijkamp, Haas and Sismanis, KDD 2011).
#include <algorithm>
#include <cstring>

#include "../shared/pool.hpp"
#include "train.hpp"

// Ratings are stored by block of items, and in it by range of users, whose vectors stay in a
// core's own cache: block b has ratings start[b * ranges] to start[(b + 1) * ranges] - 1. Their
// items are places in the block.
struct tk_factor_part : tusk::Factorization {
    int32_t blocks = 0, ranges = 1;
};

namespace tusk {
namespace {

void place_users(const tk_part_ratings &given, tk_factor_part &part) {
    Side &users = part.users;
    users.count.assign(users.n_ids, 0);
    for (int64_t k = 0; k < given.n; k++)
        users.count[given.user[k]]++;
    assign_places(users);
    double bytes = (double)users.seen() * part.stride * sizeof(float);
    part.ranges = (int32_t)std::max(1.0, std::min(bytes / BLOCK_BYTES, (double)users.seen()));
    cut(users, std::max<int64_t>(given.n, 1), part.ranges);
    if (given.weight) {
        users.mass.assign(users.seen(), 0);
        for (int64_t k = 0; k < given.n; k++)
            users.mass[users.place[given.user[k]]] += given.weight[k];
    }
}

void scatter(const tk_part_ratings &given, tk_factor_part &part) {
    auto cell = [&](int64_t k) {
        int32_t user = part.users.place[given.user[k]];
        return (size_t)given.block[k] * part.ranges + part.users.range[user];
    };
    part.start.assign((size_t)part.blocks * part.ranges + 1, 0);
    for (int64_t k = 0; k < given.n; k++)
        part.start[cell(k) + 1]++;
    for (size_t c = 1; c < part.start.size(); c++)
        part.start[c] += part.start[c - 1];
    std::vector<int64_t> at(part.start.begin(), part.start.end() - 1);
    for (int64_t k = 0; k < given.n; k++) {
        int64_t to = at[cell(k)]++;
        float value = (float)((given.value[k] - part.mean) / part.deviation);
        part.ratings.data()[to] = {part.users.place[given.user[k]], given.place[k], value};
        if (given.weight)
            part.weights.data()[to] = (float)given.weight[k];
    }
    for (size_t c = 0; c + 1 < part.start.size(); c++) {
        float *weights = given.weight ? part.weights.data() + part.start[c] : nullptr;
        order_block(part.ratings.data() + part.start[c], weights,
                    part.start[c + 1] - part.start[c], part.seed);
    }
}

} // namespace
} // namespace tusk

extern "C" {

int tk_factor_part_new(const tk_factor_spec *spec, const tk_part_ratings *ratings,
                       tusk_memory *memory, tk_factor_part **out) {
    using namespace tusk;
    *out = nullptr;
    return code_of([&]() -> int {
        auto part = std::make_unique<tk_factor_part>();
        take_spec(*spec, *part);
        part->n = ratings->n;
        part->blocks = ratings->blocks;
        part->mean = ratings->mean;
        part->deviation = ratings->deviation;
        place_users(*ratings, *part);
        int code = part->ratings.take(memory, part->n);
        if (!code && ratings->weight)
            code = part->weights.take(memory, part->n);
        if (!code)
            code = part->users.vectors.take(memory, part->users.seen() * part->stride);
        if (code)
            return code;
        scatter(*ratings, *part);
        draw_side(*part, part->users, false, part->users.vectors.data());
        *out = part.release();
        return TK_OK;
    });
}

void tk_factor_part_free(tk_factor_part *part) {
    delete part;
}

int tk_factor_part_visit(tk_factor_part *part, int32_t block, int64_t epoch, double step,
                         int64_t cancel_mark, float *vectors, int64_t n, double *squares) {
    using namespace tusk;
    return code_of([&] {
        Charged<float> aligned;
        const size_t size = (size_t)(n * part->stride) * sizeof(float);
        if (int code = aligned.take(nullptr, n * part->stride))
            return code;
        std::memcpy(aligned.data(), vectors, size);
        const Rule rule = rule_for(*part, step);
        const auto body = train_for<SideBySide>(*part);
        const SideBySide users{part->users.vectors.data()}, items{aligned.data()};
        double sum = 0;
        for (int32_t range : permutation(part->ranges, scrambled(part->seed) + (uint64_t)epoch)) {
            if (cancelled(cancel_mark))
                return (int)TK_CANCELLED;
            const int64_t *start = &part->start[(size_t)block * part->ranges + range];
            const float *weights =
                part->weights.data() ? part->weights.data() + start[0] : nullptr;
            if (start[1] > start[0])
                sum += body(part->ratings.data() + start[0], start[1] - start[0], users, items,
                            part->lines(), rule, weights);
        }
        std::memcpy(vectors, aligned.data(), size);
        *squares = sum;
        return (int)TK_OK;
    });
}

int64_t tk_factor_part_users(const tk_factor_part *part) {
    return part->users.seen();
}

void tk_factor_part_state(tk_factor_part *part, int32_t set, float *vectors) {
    size_t size = (size_t)part->users.seen() * part->stride * sizeof(float);
    if (set)
        std::memcpy(part->users.vectors.data(), vectors, size);
    else
        std::memcpy(vectors, part->users.vectors.data(), size);
}

void tk_factor_part_write(const tk_factor_part *part, int32_t *id, double *coef) {
    std::copy(part->users.id.begin(), part->users.id.end(), id);
    for (int64_t place = 0; place < part->users.seen(); place++)
        tusk::write_vector(*part, part->users.vectors.data() + place * part->stride,
                           coef + place * part->width());
}

double tk_factor_part_penalty(const tk_factor_part *part) {
    return part->l2 > 0 ? tusk::penalty_of(*part, part->users) : 0;
}

void tk_factor_start(const tk_factor_spec *spec, const int32_t *id, int64_t n, float *vectors) {
    using namespace tusk;
    Factorization f;
    take_spec(*spec, f);
    f.items.id.assign(id, id + n);
    draw_side(f, f.items, true, vectors);
}
}
