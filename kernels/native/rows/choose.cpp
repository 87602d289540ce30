// Copies of groups without some of their rows, or with some of them repeated, in order.
#include <algorithm>
#include <cstring>

#include "../shared/rows.hpp"
#include "../shared/segments.hpp"
#include "shuffle.hpp"

namespace tusk {
namespace {

int choose(const tk_pass *pass, tusk_memory *memory, const uint8_t *chosen, tusk_group *out) {
    std::vector<const uint8_t *> of_group(pass->n_groups);
    const uint8_t *all = chosen;
    for (int64_t g = 0; g < pass->n_groups; chosen += pass->groups[g++].n_rows)
        of_group[g] = chosen;
    const bool weighted = std::any_of(all, chosen, [](uint8_t times) { return times > 1; });
    return for_each_group(pass, [&](int64_t g, int threads) {
        const uint8_t *kept = of_group[g];
        std::vector<Key> keys;
        for (const tusk_segment *s : SegmentsOf(pass->groups[g]))
            for (uint32_t row = 0; row < s->n_rows; row++)
                for (uint8_t times = *kept++; times; times--)
                    keys.push_back({0, s, row});
        return copy_rows(pass->groups[g], memory, threads, keys.data(), (int64_t)keys.size(),
                         out + g, weighted);
    });
}

} // namespace
} // namespace tusk

int tk_choose(const tk_pass *pass, tusk_memory *memory, const uint8_t *chosen, tusk_group *out) {
    using namespace tusk;
    std::memset(out, 0, pass->n_groups * sizeof *out);
    int code = code_of([&] { return choose(pass, memory, chosen, out); });
    if (code)
        tk_free_groups(out, pass->n_groups);
    return code;
}
