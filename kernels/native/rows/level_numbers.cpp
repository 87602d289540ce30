// Categories as numbers of their levels, for learners that split by sets of them.
#include <algorithm>
#include <numeric>

#include "columns.hpp"

namespace tusk {
namespace {

// Trees have bins for no more; the other levels are rare ones.
constexpr size_t MOST_NUMBERED = 255;

} // namespace

void number_levels(const tk_preparing *how, Columns *out) {
    for (Column &c : out->columns)
        if (how->level_numbers && c.kind == Kind::CATEGORY)
            c.kind = Kind::LEVELS;
}

void place_levels(Column &c, const std::vector<int64_t> &count, const tk_preparing *how,
                  int32_t *next) {
    std::vector<bool> kept = kept_levels(count, how);
    std::vector<size_t> order;
    for (size_t k = 0; k < kept.size(); k++)
        if (kept[k])
            order.push_back(k);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return count[a] > count[b]; });
    order.resize(std::min(order.size(), MOST_NUMBERED));
    std::vector<int32_t> number(count.size(), NONE);
    std::vector<std::string_view> levels;
    for (size_t k : order) {
        number[k] = (int32_t)levels.size();
        levels.push_back(c.levels[k]);
    }
    bool own_level = how->missing == TK_MISSING_LEVEL || how->missing == TK_MISSING_KEEP;
    c.first = (*next)++;
    c.width = 1;
    c.other = levels.size() < c.levels.size() ? c.first : NONE;
    c.missing = c.n_missing && own_level ? c.first : NONE;
    c.fill_level = levels.empty() ? NONE : 0;
    c.levels = std::move(levels);
    for (auto &part : c.feature)
        for (int32_t &k : part)
            k = number[k];
}

std::string levels_of(const Columns &columns) {
    std::string out((size_t)columns.n_features, '\0');
    bool any = false;
    for (const Column &c : columns.columns)
        if (c.kind == Kind::LEVELS) {
            out[(size_t)c.first] = 1;
            any = true;
        }
    return any ? out : std::string();
}

} // namespace tusk
