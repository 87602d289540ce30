#include "rows.hpp"

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>

namespace tusk {
namespace {

constexpr int64_t SAMPLED_CHUNKS = 64; // of a sample of sparse rows, from all over a group

// The number of rows per chunk of a sample, of which losses, gradients and curvatures have to read
// the same rows.
int64_t sampled_rows(const tk_pass *pass, const tusk_group &group) {
    if (!tusk_is_sparse(group.kind))
        return std::max<int64_t>(chunk_rows_for(pass), 4 * ((int64_t)group.dim + 1));
    return std::clamp<int64_t>(group.n_rows / (SAMPLED_CHUNKS * pass->stride), 256, 16384);
}

} // namespace

std::vector<Chunk> make_chunks(const tk_pass *pass, Ref<int64_t(int64_t group)> chunk_rows) {
    std::vector<Chunk> chunks;
    int64_t number = 0;
    for (int64_t g = 0; g < pass->n_groups; g++) {
        const tusk_segment *s = pass->groups[g].head;
        int64_t left = pass->groups[g].n_rows;
        uint32_t offset = 0;
        int64_t most = pass->stride > 1 ? sampled_rows(pass, pass->groups[g]) : chunk_rows(g);
        while (left > 0) {
            int64_t rows = std::min(left, most);
            if (number++ % pass->stride == 0)
                chunks.push_back({g, s, offset, rows, tusk_shape_of(pass->groups + g)});
            left -= rows;
            for (int64_t skip = rows; skip > 0 && left > 0;) {
                int64_t step = std::min<int64_t>(skip, s->n_rows - offset);
                skip -= step;
                offset += (uint32_t)step;
                if (offset == s->n_rows) {
                    s = s->next;
                    offset = 0;
                }
            }
        }
        number = 0;
    }
    return chunks;
}

namespace {

// The partial sum of each chunk, by number. It is -1 for the only chunk of a group, which adds
// directly to the group's sums.
struct Places {
    std::vector<int64_t> of;
    int64_t shared = 0;

    explicit Places(const std::vector<Chunk> &chunks) : of(chunks.size(), -1) {
        for (size_t i = 0; i < chunks.size(); i++) {
            bool alone = (i == 0 || chunks[i - 1].group != chunks[i].group) &&
                         (i + 1 == chunks.size() || chunks[i + 1].group != chunks[i].group);
            if (!alone)
                of[i] = shared++;
        }
    }
};

// Adds the chunks' partial sums to their groups' sums. Threads share the columns, so each column
// is summed in the order of the chunks.
void add_partial(const std::vector<Chunk> &chunks, const Places &places, int64_t width,
                 const double *partial, int threads, double *out) {
    constexpr int64_t COLUMNS = 4096;
    int64_t ranges = places.shared ? (width + COLUMNS - 1) / COLUMNS : 0;
    parallel_for(ranges, threads, [&](int64_t range) {
        int64_t first = range * COLUMNS, last = std::min(first + COLUMNS, width);
        for (size_t i = 0; i < chunks.size(); i++) {
            if (places.of[i] < 0)
                continue;
            double *to = out + chunks[i].group * width;
            const double *from = partial + places.of[i] * width;
            for (int64_t k = first; k < last; k++)
                to[k] += from[k];
        }
    });
}

} // namespace

int sum_over_chunks(const tk_pass *pass, const std::vector<Chunk> &chunks, int64_t width,
                    double *out, Ref<void(const Chunk &, double *)> body, double deadline) {
    std::fill(out, out + pass->n_groups * width, 0.0);
    const Places places(chunks);
    Counted counted(places.shared * width * (int64_t)sizeof(double));
    // calloc leaves the pages untouched, so each one is mapped by the thread that writes it first.
    std::unique_ptr<double, decltype(&std::free)> partial(
        (double *)std::calloc(std::max<int64_t>(places.shared, 1), width * sizeof(double)),
        std::free);
    if (!partial)
        throw std::bad_alloc();
    std::atomic<bool> stop{false};
    parallel_for((int64_t)chunks.size(), pass->threads, [&](int64_t i) {
        if (stop.load(std::memory_order_relaxed) || ending(pass->cancel_mark, deadline)) {
            stop.store(true, std::memory_order_relaxed);
            return;
        }
        const int64_t place = places.of[i];
        body(chunks[i], place < 0 ? out + chunks[i].group * width : partial.get() + place * width);
    });
    if (int code = ending(pass->cancel_mark, deadline))
        return code;
    add_partial(chunks, places, width, partial.get(), pass->threads, out);
    return TK_OK;
}

} // namespace tusk

extern "C" int64_t tk_nonzeros(const tusk_group *group) {
    int64_t total = 0;
    for (const tusk_segment *s : tusk::SegmentsOf(*group))
        total += s->nnz;
    return total;
}
