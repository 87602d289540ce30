// Copies rows [user, item] and their labels into blocks of ratings.
#include "factorization.hpp"

#include <bit>
#include <cmath>

#include "../shared/rows.hpp"
#include "../shared/segments.hpp"

namespace tusk {
namespace {

// Approximate ratings per block: enough work for a thread, and enough blocks for all threads.
constexpr double BLOCK_RATINGS = 1024;
constexpr double MAX_GRID = 256, MAX_STORED_GRID = 1024;
constexpr double STORED_GRID = 8;

// Runs body(chunk number) for all chunks, unless cancelled.
template <class Body> int for_chunks(const tk_pass *pass, size_t n, Body &&body) {
    parallel_for((int64_t)n, pass->threads, [&](int64_t i) {
        if (!cancelled(pass->cancel_mark))
            body(i);
    });
    return cancelled(pass->cancel_mark) ? TK_CANCELLED : TK_OK;
}

} // namespace

// Each thread has its own counters if there are few enough ids.
int count_ids(const tk_pass *pass, const std::vector<Chunk> &chunks, Side &users, Side &items) {
    int64_t ids = users.n_ids + items.n_ids, n = pass->groups[0].n_rows;
    int64_t parts = std::clamp<int64_t>(n / ids, 1, pass->threads);
    Counted counted((parts + 1) * ids * (int64_t)sizeof(int64_t)); // plus one copy of the counts
    std::vector<std::vector<int64_t>> counts(parts);
    int code = for_chunks(pass, parts, [&](int64_t part) {
        std::vector<int64_t> &mine = counts[part];
        mine.assign(ids, 0);
        size_t first = chunks.size() * part / parts, end = chunks.size() * (part + 1) / parts;
        for (size_t c = first; c < end && !cancelled(pass->cancel_mark); c++)
            for_ratings(pass, chunks[c], [&](auto user, auto item, double, double) {
                mine[(size_t)user]++;
                mine[users.n_ids + (size_t)item]++;
            });
    });
    if (code)
        return code;
    for (int64_t part = 1; part < parts; part++)
        for (int64_t id = 0; id < ids; id++)
            counts[0][id] += counts[part][id];
    users.count.assign(counts[0].begin(), counts[0].begin() + users.n_ids);
    items.count.assign(counts[0].begin() + users.n_ids, counts[0].end());
    return TK_OK;
}

void assign_places(Side &side) {
    side.place.assign(side.n_ids, -1);
    int32_t seen = 0;
    for (int64_t id = 0; id < side.n_ids; id++)
        if (side.count[id]) {
            side.place[id] = seen;
            side.id.push_back((int32_t)id);
            side.count[seen++] = side.count[id];
        }
    side.count.resize(seen);
}

void cut(Side &side, int64_t n, int32_t grid) {
    side.range.resize(side.seen());
    int64_t before = 0;
    for (int64_t place = 0; place < side.seen(); place++) {
        double middle = (double)before + 0.5 * (double)side.count[place];
        side.range[place] = std::min(grid - 1, (int32_t)(middle / (double)n * grid));
        before += side.count[place];
    }
    side.first.assign(grid + 1, (int32_t)side.seen());
    for (int64_t place = side.seen(); place-- > 0;)
        side.first[side.range[place]] = (int32_t)place;
    for (int32_t r = grid; r-- > 0;) // for empty ranges
        side.first[r] = std::min(side.first[r], side.first[r + 1]);
}

namespace {

// With a store each block requests its vectors again, so blocks are as large as memory allows, but
// small enough to keep a few threads busy.
int32_t grid_for(const Factorization &f) {
    double bytes = (double)(f.users.seen() + f.items.seen()) * f.stride * sizeof(float);
    double wanted = std::sqrt((double)f.n / BLOCK_RATINGS);
    if (f.block_bytes)
        wanted = std::max(std::min(wanted, STORED_GRID), bytes / (double)f.block_bytes);
    else
        wanted = std::max(wanted, bytes / BLOCK_BYTES);
    double limit = f.block_bytes ? MAX_STORED_GRID : MAX_GRID;
    double most = std::min((double)std::min(f.users.seen(), f.items.seen()), limit);
    return (int32_t)std::max(1.0, std::min(wanted, most));
}

// The largest weight of a row.
double largest_weight(const tk_pass *pass) {
    const tusk_group &group = pass->groups[0];
    if (!(group.extras & TUSK_WEIGHTS))
        return 1;
    double most = 0;
    for (const tusk_segment *s : SegmentsOf(group)) {
        const double *w = tusk_extra(s, tusk_shape_of(&group), TUSK_WEIGHTS);
        most = std::max(most, *std::max_element(w, w + s->n_rows));
    }
    return most;
}

// Offset and unit of ratings' floats: the middle of the ratings, or 0 if the model does not absorb
// their mean, and a power of 2, so that differences of whole numbers stay exact.
struct Scale {
    double origin = 0, unit = 1;
    float of(double y) const { return (float)((y - origin) / unit); }
};
Scale scale_of(const tusk_group &group, bool centred) {
    double low = HUGE_VAL, high = -HUGE_VAL;
    for (const tusk_segment *s : SegmentsOf(group)) {
        auto [least, most] = std::minmax_element(tusk_labels(s), tusk_labels(s) + s->n_rows);
        low = std::min(low, *least), high = std::max(high, *most);
    }
    Scale scale{centred ? low / 2 + high / 2 : 0, 1};
    double far = std::max(high - scale.origin, scale.origin - low);
    int exponent = 0;
    if (far > 0 && std::isfinite(far))
        std::frexp(far, &exponent);
    scale.unit = std::ldexp(1.0, exponent);
    return scale;
}

// Copies ratings to their blocks. Counts of each chunk's ratings by block give their positions.
// Weights are divided by the largest one.
int scatter(const tk_pass *pass, const std::vector<Chunk> &chunks, const Scale &scale,
            Factorization &f) {
    size_t blocks = (size_t)f.grid * f.grid;
    double most = largest_weight(pass);
    // Chunks are joined into fewer parts, because each part has one counter per block.
    size_t parts = std::min<size_t>(chunks.size(), 4 * (size_t)pass->threads);
    std::vector<int64_t> at(parts * blocks, 0);
    auto for_part = [&](size_t part, auto &&body) {
        size_t first = chunks.size() * part / parts, end = chunks.size() * (part + 1) / parts;
        for (size_t c = first; c < end && !cancelled(pass->cancel_mark); c++)
            for_ratings(pass, chunks[c], [&](auto user, auto item, double y, double w) {
                int32_t u = f.users.place[(size_t)user], i = f.items.place[(size_t)item];
                body((size_t)f.users.range[u] * f.grid + f.items.range[i],
                     Rating{u, i, scale.of(y)}, (float)(w / most));
            });
    };
    int code = for_chunks(pass, parts, [&](int64_t part) {
        int64_t *mine = &at[part * blocks];
        for_part(part, [&](size_t block, const Rating &, float) { mine[block]++; });
    });
    if (code)
        return code;
    f.start.assign(blocks + 1, 0);
    int64_t total = 0;
    for (size_t block = 0; block < blocks; block++) {
        f.start[block] = total;
        for (size_t part = 0; part < parts; part++) {
            int64_t here = at[part * blocks + block];
            at[part * blocks + block] = total;
            total += here;
        }
    }
    f.start[blocks] = total;
    return for_chunks(pass, parts, [&](int64_t part) {
        int64_t *mine = &at[part * blocks];
        for_part(part, [&](size_t block, const Rating &rating, float weight) {
            if (f.weights.data())
                f.weights.data()[mine[block]] = weight;
            f.ratings.data()[mine[block]++] = rating;
        });
    });
}

// The hash depends on the pair alone, so the order is independent of the ratings' unit.
inline uint32_t shuffle_key(const Rating &r, uint64_t seed) {
    uint64_t pair = (uint64_t)(uint32_t)r.user << 32 | (uint32_t)r.item;
    return (uint32_t)(scrambled(scrambled(pair ^ seed)) >> 32);
}

// Ratings of one pair are not ordered by size.
inline uint64_t value_key(const Rating &r) {
    return scrambled(std::bit_cast<uint32_t>(r.value));
}

struct Keyed {
    uint32_t key;
    Rating rating;
    float weight;
};

inline bool before(const Keyed &a, const Keyed &b) {
    if (a.key != b.key)
        return a.key < b.key;
    if (a.rating.user != b.rating.user)
        return a.rating.user < b.rating.user;
    if (a.rating.item != b.rating.item)
        return a.rating.item < b.rating.item;
    if (a.rating.value != b.rating.value)
        return value_key(a.rating) < value_key(b.rating);
    return a.weight < b.weight;
}

} // namespace

// Keys are uniform, so a counting sort with one bucket per rating nearly sorts them, and insertion
// sort finishes.
void order_block(Rating *ratings, float *weights, size_t n, uint64_t seed) {
    std::vector<Keyed> room;
    std::vector<uint32_t> at;
    int bits = 0;
    while (bits < 24 && (size_t)2 << bits < n)
        bits++;
    room.resize(n);
    at.assign(((size_t)1 << bits) + 1, 0);
    auto bucket = [&](uint32_t key) { return bits ? key >> (32 - bits) : 0; };
    for (size_t k = 0; k < n; k++)
        at[bucket(shuffle_key(ratings[k], seed)) + 1]++;
    for (size_t b = 1; b < at.size(); b++)
        at[b] += at[b - 1];
    for (size_t k = 0; k < n; k++) {
        uint32_t key = shuffle_key(ratings[k], seed);
        room[at[bucket(key)]++] = {key, ratings[k], weights ? weights[k] : 1};
    }
    // Equal ratings have equal keys. With many of them insertion sort would take quadratic time.
    size_t longest = 0, first = 0;
    for (size_t b = 0; b + 1 < at.size(); first = at[b++])
        longest = std::max<size_t>(longest, at[b] - first);
    if (longest > 64) {
        std::sort(room.begin(), room.end(), before);
    } else {
        for (size_t k = 1; k < n; k++) {
            Keyed moving = room[k];
            size_t to = k;
            for (; to > 0 && before(moving, room[to - 1]); to--)
                room[to] = room[to - 1];
            room[to] = moving;
        }
    }
    for (size_t k = 0; k < n; k++)
        ratings[k] = room[k].rating;
    for (size_t k = 0; weights && k < n; k++)
        weights[k] = room[k].weight;
}

namespace {

// Sums over blocks in their order, so the result is the same for any number of threads.
template <class Term> double block_sum(const tk_pass *pass, const Factorization &f, Term &&term) {
    std::vector<double> sums(f.start.size() - 1);
    parallel_for((int64_t)sums.size(), pass->threads, [&](int64_t b) {
        double sum = 0;
        for (int64_t k = f.start[b]; k < f.start[b + 1]; k++)
            sum += term(f.ratings.data()[k], f.weights.data() ? f.weights.data()[k] : 1.0f);
        sums[b] = sum;
    });
    double total = 0;
    for (double sum : sums)
        total += sum;
    return total;
}

// Scales the weights to mean 1, and adds them up by user and by item.
void scale_weights(const tk_pass *pass, Factorization &f) {
    if (!f.weights.data())
        return;
    double total = block_sum(pass, f, [](Rating &, float w) { return (double)w; });
    for (int64_t k = 0; k < f.n; k++)
        f.weights.data()[k] = (float)(f.weights.data()[k] * ((double)f.n / total));
    f.users.mass.assign(f.users.seen(), 0);
    f.items.mass.assign(f.items.seen(), 0);
    for (int64_t k = 0; k < f.n; k++) {
        f.users.mass[f.ratings.data()[k].user] += f.weights.data()[k];
        f.items.mass[f.ratings.data()[k].item] += f.weights.data()[k];
    }
}

void standardise(const tk_pass *pass, const Scale &scale, Factorization &f) {
    double n = (double)f.n, mean = 0;
    if (f.biases)
        mean = block_sum(pass, f, [](Rating &r, float w) { return (double)r.value * w; }) / n;
    double square = block_sum(pass, f, [&](Rating &r, float w) {
        double d = r.value - mean;
        return d * d * w;
    });
    double deviation = square > 0 ? std::sqrt(square / n) : 1.0;
    block_sum(pass, f, [&](Rating &r, float) {
        r.value = (float)((r.value - mean) / deviation);
        return 0.0;
    });
    f.mean = scale.origin + scale.unit * mean;
    f.deviation = scale.unit * deviation;
}

} // namespace

int read_ratings(const tk_pass *pass, tusk_memory *memory, Factorization &f) {
    std::vector<Chunk> chunks = make_chunks(pass, RATING_CHUNK);
    f.n = pass->groups[0].n_rows;
    if (int code = count_ids(pass, chunks, f.users, f.items))
        return code;
    for (Side *side : {&f.users, &f.items})
        assign_places(*side);
    f.grid = grid_for(f);
    for (Side *side : {&f.users, &f.items})
        cut(*side, f.n, f.grid);
    int code = f.ratings.take(memory, f.n);
    if (!code && pass->groups[0].extras & TUSK_WEIGHTS)
        code = f.weights.take(memory, f.n);
    if (code)
        return code;
    const Scale scale = scale_of(pass->groups[0], f.biases);
    if (int code = scatter(pass, chunks, scale, f))
        return code;
    code = for_chunks(pass, (size_t)f.grid * f.grid, [&](int64_t b) {
        float *weights = f.weights.data() ? f.weights.data() + f.start[b] : nullptr;
        order_block(f.ratings.data() + f.start[b], weights, f.start[b + 1] - f.start[b], f.seed);
    });
    if (code)
        return code;
    scale_weights(pass, f);
    standardise(pass, scale, f);
    return TK_OK;
}

} // namespace tusk

int tk_rating_ids(const tk_pass *pass, tk_ids *out) {
    using namespace tusk;
    return code_of([&] {
        std::vector<Chunk> chunks = make_chunks(pass, RATING_CHUNK);
        std::vector<tk_ids> found(chunks.size());
        double most = pass->groups[0].kind == TUSK_DENSE_F32 ? (1 << 24) - 1 : 2147483647.0;
        int code = for_chunks(pass, chunks.size(), [&](int64_t c) {
            tk_ids &mine = found[c] = {};
            int64_t row = 0;
            for_ratings(pass, chunks[c], [&](auto user, auto item, double, double) {
                row++;
                for (int k = 0; k < 2; k++) {
                    double id = k ? item : user;
                    int64_t &n = k ? mine.n_items : mine.n_users;
                    // There is no NaN, because the packers reject it.
                    bool good = id >= 0 && id <= most && id == (double)(int64_t)id;
                    if (good)
                        n = std::max(n, (int64_t)id + 1);
                    else if (!mine.bad_row)
                        mine.bad_row = row, mine.bad_position = k + 1, mine.bad = id;
                }
            });
        });
        *out = {};
        int64_t rows = 0;
        for (size_t c = 0; c < chunks.size(); rows += chunks[c++].rows) {
            out->n_users = std::max(out->n_users, found[c].n_users);
            out->n_items = std::max(out->n_items, found[c].n_items);
            if (found[c].bad_row && !out->bad_row) {
                *out = found[c];
                out->bad_row += rows;
                break;
            }
        }
        return code;
    });
}
