// Bayesian personalised ranking. For a user u, an item i with feedback and an item j without, the
// loss is -ln of the probability that u prefers i:
//
//     ln(1 + exp(-s)) + l2/2 (|x_u|^2 + |y_i|^2 + b_i^2 + |y_j|^2 + b_j^2),
//     s = x_u.(y_i - y_j) + b_i - b_j.
//
// Rendle, Freudenthaler, Gantner, Schmidt-Thieme, BPR: Bayesian Personalized Ranking from Implicit
// Feedback, UAI 2009: an epoch draws as many triples as there are pairs, with replacement, and
// takes a gradient step for each (LearnBPR, figure 4).
//
// Threads. Users are cut into ranges, and in each epoch a new permutation deals the items to as
// many ranges. A stratum pairs each range of users with one of items, so its blocks share no
// vector, and both items of a triple are of the block. Random numbers are hashes of counters. So
// the result is the same for any number of threads.
#include "../../shared/pool.hpp"
#include "interactions.hpp"

namespace tusk {
namespace {

constexpr double BLOCK_PAIRS = 2048, BLOCK_ITEMS = 32, BLOCK_USERS = 4, MOST_GRID = 16;
constexpr int DRAWS = 16; // attempts to find an item without feedback, before the triple is
                          // skipped

struct Pair {
    int32_t user, item;
};

// The blocks of an epoch. Block (a, b) has pairs start[a * grid + b] to start[a * grid + b + 1].
struct Blocks {
    int32_t grid = 1;
    std::vector<int32_t> users; // first index of each range, and the number of indices
    std::vector<int32_t> items; // in the order of the permutation
    std::vector<int32_t> range; // of items, by index
    std::vector<int64_t> start;
    Charged<Pair> pairs;
    int32_t first_item(int32_t b) const { return (int32_t)((int64_t)items.size() * b / grid); }
};

int32_t grid_of(const Interactions &f) {
    const double most =
        std::min({std::sqrt((double)f.n / BLOCK_PAIRS), (double)f.items.seen() / BLOCK_ITEMS,
                  (double)f.users.seen() / BLOCK_USERS, MOST_GRID});
    return (int32_t)std::max(1.0, most);
}

// Cuts the users into ranges with about as many pairs each.
void cut_users(const Interactions &f, Blocks &blocks) {
    blocks.users.assign(blocks.grid + 1, (int32_t)f.users.seen());
    int64_t before = 0;
    int32_t range = 0;
    for (int64_t u = 0; u < f.users.seen(); before += f.by_user.count[u++])
        while (range < blocks.grid && before >= f.n * range / blocks.grid)
            blocks.users[range++] = (int32_t)u;
}

void deal_items(const Interactions &f, int64_t epoch, Blocks &blocks) {
    blocks.items =
        permutation((int32_t)f.items.seen(), scrambled(scrambled(f.seed + 5) + (uint64_t)epoch));
    blocks.range.resize(blocks.items.size());
    for (int32_t b = 0; b < blocks.grid; b++)
        for (int32_t k = blocks.first_item(b); k < blocks.first_item(b + 1); k++)
            blocks.range[blocks.items[k]] = b;
}

template <class Body>
void for_pairs(const Interactions &f, const Blocks &blocks, int64_t a, Body &&body) {
    for (int32_t u = blocks.users[a]; u < blocks.users[a + 1]; u++)
        for (int64_t k = 0; k < f.by_user.count[u]; k++) {
            const int32_t item = f.by_user.of(u)[k].place;
            body(a * blocks.grid + blocks.range[item], Pair{u, item});
        }
}

// Copies the pairs to their blocks. Returns a tk_code.
int deal_pairs(const Interactions &f, int threads, Blocks &blocks) {
    const int64_t n = (int64_t)blocks.grid * blocks.grid;
    if (int code = blocks.pairs.take(f.memory, f.n))
        return code;
    blocks.start.assign(n + 1, 0);
    parallel_for(blocks.grid, threads, [&](int64_t a) {
        for_pairs(f, blocks, a, [&](int64_t block, const Pair &) { blocks.start[block + 1]++; });
    });
    for (int64_t k = 0; k < n; k++)
        blocks.start[k + 1] += blocks.start[k];
    std::vector<int64_t> at(blocks.start.begin(), blocks.start.end() - 1);
    parallel_for(blocks.grid, threads, [&](int64_t a) {
        for_pairs(f, blocks, a, [&](int64_t block, const Pair &pair) {
            blocks.pairs.data()[at[block]++] = pair;
        });
    });
    return TK_OK;
}

bool has_item(const Interactions &f, int32_t user, int32_t item) {
    const Entry *first = f.by_user.of(user), *end = first + f.by_user.count[user];
    const Entry *found = std::lower_bound(
        first, end, item, [](const Entry &e, int32_t place) { return e.place < place; });
    return found < end && found->place == item;
}

// Sum of losses, and number of triples.
struct Lost {
    double loss = 0;
    int64_t n = 0;
};

// The step of one triple. Returns its loss before the step.
double step_triple(const Interactions &f, float *x, float *yi, float *yj, float step) {
    const v16f one = splat16(1), minus = splat16(-1);
    v16f product{}, squares{};
    for (int l = 0; l < f.lines(); l++) {
        const v16f a = load16(x + l * LINE), p = load16(yi + l * LINE), q = load16(yj + l * LINE);
        product += (l ? a : with_first(one, a)) * (p + minus * q);
        squares += a * a + p * p + q * q;
    }
    const float s = sum16(product), z = 1 / (1 + std::exp(s));
    const float keep = (float)(1 - step * f.l2);
    const v16f up = splat16(step * z), kept = splat16(keep);
    for (int l = 0; l < f.lines(); l++) {
        const v16f a = load16(x + l * LINE), p = load16(yi + l * LINE), q = load16(yj + l * LINE);
        const v16f by = up * (l ? a : with_first(one, a));
        const v16f moved = kept * a + up * (p + minus * q);
        store16(x + l * LINE, l ? moved : with_first(v16f{}, moved));
        store16(yi + l * LINE, kept * p + by);
        store16(yj + l * LINE, kept * q + minus * by);
    }
    const double softplus = s > 0 ? std::log1p(std::exp(-s)) : std::log1p(std::exp(s)) - s;
    return softplus + 0.5 * f.l2 * sum16(squares);
}

Lost train_block(Interactions &f, const Blocks &blocks, int32_t a, int32_t b, int64_t epoch,
                 float step) {
    const int64_t block = (int64_t)a * blocks.grid + b;
    const int64_t first = blocks.start[block], n = blocks.start[block + 1] - first;
    const int32_t low = blocks.first_item(b), items = blocks.first_item(b + 1) - low;
    uint64_t counter = scrambled(scrambled(f.seed + 7 * (uint64_t)epoch) + (uint64_t)block);
    float *x = f.users.vectors.data(), *y = f.items.vectors.data();
    Lost lost;
    for (int64_t t = 0; t < n; t++) {
        const Pair &pair = blocks.pairs.data()[first + (int64_t)(scrambled(counter++) % n)];
        int32_t other = pair.item;
        for (int draw = 0; draw < DRAWS && has_item(f, pair.user, other); draw++)
            other = blocks.items[low + (int32_t)(scrambled(counter++) % items)];
        if (has_item(f, pair.user, other))
            continue;
        lost.loss +=
            step_triple(f, x + (int64_t)pair.user * f.stride, y + (int64_t)pair.item * f.stride,
                        y + (int64_t)other * f.stride, step);
        lost.n++;
    }
    return lost;
}

int run_epoch(Interactions &f, int64_t epoch, double step, int threads, int64_t cancel_mark,
              Lost *total) {
    Blocks blocks;
    blocks.grid = grid_of(f);
    cut_users(f, blocks);
    deal_items(f, epoch, blocks);
    if (int code = deal_pairs(f, threads, blocks))
        return code;
    std::vector<Lost> lost(blocks.grid);
    for (int32_t stratum = 0; stratum < blocks.grid; stratum++) {
        parallel_for(blocks.grid, threads, [&](int64_t a) {
            const int32_t b = (int32_t)((a + stratum) % blocks.grid);
            if (!cancelled(cancel_mark))
                lost[a] = train_block(f, blocks, (int32_t)a, b, epoch, (float)step);
        });
        for (const Lost &one : lost) {
            total->loss += one.loss;
            total->n += one.n;
        }
    }
    return cancelled(cancel_mark) ? TK_CANCELLED : TK_OK;
}

} // namespace
} // namespace tusk

int tk_interactions_rank(tk_interactions *f, int64_t epoch, double step, int threads,
                         int64_t cancel_mark, double *loss) {
    using namespace tusk;
    return code_of([&] {
        Lost total;
        int code = run_epoch(*f, epoch, step, threads, cancel_mark, &total);
        *loss = total.n ? total.loss / (double)total.n : 0;
        return code;
    });
}
