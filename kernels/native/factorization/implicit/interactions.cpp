// Copies rows [user, item] and their feedback into a list for each user and one for each item.
#include "interactions.hpp"

#include "../../shared/pool.hpp"

namespace tusk {
namespace {

constexpr int64_t TASK_ENTRIES = 1 << 12; // approximate work of a task
constexpr int64_t PLACE_ENTRIES = 16;     // an index without entries is about as much work

// Computes the start of each index's entries.
int64_t place_lists(Lists &lists) {
    int64_t total = 0;
    lists.first.resize(lists.count.size());
    for (size_t k = 0; k < lists.count.size(); total += lists.count[k++])
        lists.first[k] = total;
    return total;
}

// Cuts the indices into tasks. The cuts depend on the entries alone.
void cut_tasks(Lists &lists) {
    lists.cut.assign(1, 0);
    int64_t work = 0, n = (int64_t)lists.count.size();
    for (int64_t k = 0; k < n; k++) {
        work += lists.count[k] + PLACE_ENTRIES;
        if (work >= TASK_ENTRIES || k + 1 == n) {
            lists.cut.push_back((int32_t)(k + 1));
            work = 0;
        }
    }
}

bool before(const Entry &a, const Entry &b) {
    return a.place != b.place ? a.place < b.place : a.extra < b.extra;
}

// Sorts a user's entries and adds up those of one item. Returns the number left.
int64_t merge(Entry *e, int64_t n, double alpha) {
    std::sort(e, e + n, before);
    int64_t to = 0;
    for (int64_t k = 0; k < n;) {
        const int32_t place = e[k].place;
        double sum = 0;
        for (; k < n && e[k].place == place; k++)
            sum += e[k].extra;
        if (sum > 0)
            e[to++] = {place, (float)(alpha * sum)};
    }
    return to;
}

int read_users(const tk_pass *pass, Interactions &f) {
    Lists &mine = f.by_user;
    mine.count = f.users.count;
    if (int code = mine.entries.take(f.memory, place_lists(mine)))
        return code;
    std::vector<int64_t> at = mine.first;
    for (const Chunk &c : make_chunks(pass, RATING_CHUNK)) {
        if (cancelled(pass->cancel_mark))
            return TK_CANCELLED;
        for_ratings(pass, c, [&](auto user, auto item, double r, double weight) {
            const int32_t u = f.users.place[(size_t)user], i = f.items.place[(size_t)item];
            mine.entries.data()[at[u]++] = {i, (float)(weight * r)};
        });
    }
    cut_tasks(mine);
    parallel_for((int64_t)mine.cut.size() - 1, pass->threads, [&](int64_t task) {
        for (int32_t u = mine.cut[task]; u < mine.cut[task + 1]; u++)
            mine.count[u] = merge(mine.entries.data() + mine.first[u], mine.count[u], f.alpha);
    });
    return cancelled(pass->cancel_mark) ? TK_CANCELLED : TK_OK;
}

int read_items(Interactions &f) {
    const Lists &theirs = f.by_user;
    Lists &mine = f.by_item;
    mine.count.assign(f.items.seen(), 0);
    for (int64_t u = 0; u < f.users.seen(); u++)
        for (int64_t k = 0; k < theirs.count[u]; k++)
            mine.count[theirs.of(u)[k].place]++;
    f.n = place_lists(mine);
    if (int code = mine.entries.take(f.memory, f.n))
        return code;
    std::vector<int64_t> at = mine.first;
    for (int64_t u = 0; u < f.users.seen(); u++)
        for (int64_t k = 0; k < theirs.count[u]; k++) {
            const Entry &e = theirs.of(u)[k];
            mine.entries.data()[at[e.place]++] = {(int32_t)u, e.extra};
        }
    cut_tasks(mine);
    return TK_OK;
}

double total_confidence(const Interactions &f) {
    double total = (double)f.users.seen() * (double)f.items.seen();
    for (int64_t u = 0; u < f.users.seen(); u++)
        for (int64_t k = 0; k < f.by_user.count[u]; k++)
            total += f.by_user.of(u)[k].extra;
    return total;
}

} // namespace

int read_interactions(const tk_pass *pass, tusk_memory *memory, Interactions &f) {
    f.memory = memory;
    const std::vector<Chunk> chunks = make_chunks(pass, RATING_CHUNK);
    if (int code = count_ids(pass, chunks, f.users, f.items))
        return code;
    for (Side *side : {&f.users, &f.items})
        assign_places(*side);
    int code = read_users(pass, f);
    if (!code)
        code = read_items(f);
    for (Side *side : {&f.users, &f.items})
        if (!code)
            code = side->vectors.take(memory, side->seen() * f.stride);
    return code;
}

} // namespace tusk

extern "C" {

int tk_feedback_outside(const tk_pass *pass, double most, int64_t *row, double *label) {
    using namespace tusk;
    return code_of([&] {
        *row = 0;
        int64_t at = 0;
        for (const Chunk &c : make_chunks(pass, RATING_CHUNK)) {
            if (*row || cancelled(pass->cancel_mark))
                break;
            for_ratings(pass, c, [&](auto, auto, double r, double) {
                at++;
                if (!(r >= 0 && r <= most) && !*row)
                    *row = at, *label = r;
            });
        }
        return cancelled(pass->cancel_mark) ? TK_CANCELLED : TK_OK;
    });
}

int tk_interactions_new(const tk_pass *pass, tusk_memory *memory, const tk_factor_spec *spec,
                        tk_interactions **out) {
    using namespace tusk;
    *out = nullptr;
    return code_of([&]() -> int {
        auto f = std::make_unique<tk_interactions>();
        f->rank = spec->rank;
        f->biases = spec->biases;
        f->stride = (f->width() + LINE - 1) / LINE * LINE;
        f->alpha = spec->alpha;
        f->l2 = spec->l2;
        f->l2_factors = spec->l2_factors;
        f->seed = spec->seed;
        f->users.n_ids = spec->n_users;
        f->items.n_ids = spec->n_items;
        if (int code = read_interactions(pass, memory, *f))
            return code;
        tk_interactions_start(f.get());
        *out = f.release();
        return TK_OK;
    });
}

void tk_interactions_free(tk_interactions *f) {
    delete f;
}

int64_t tk_interactions_pairs(const tk_interactions *f) {
    return f->n;
}

double tk_interactions_confidence(const tk_interactions *f) {
    return tusk::total_confidence(*f);
}

void tk_interactions_start(tk_interactions *f) {
    tusk::draw_start(*f);
}

void tk_interactions_write(const tk_interactions *f, double *coef) {
    tusk::write_side(*f, f->users, coef);
    tusk::write_side(*f, f->items, coef + f->users.n_ids * f->width());
}
}
