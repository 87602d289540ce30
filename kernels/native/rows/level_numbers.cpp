// Categories as numbers of their levels, for learners that split by sets of them or whose features
// are names.
#include <algorithm>
#include <numeric>

#include "../trees/api.h"
#include "columns.hpp"

namespace tusk {
namespace {

// Trees have at most this many bins; the other levels count as rare.
constexpr size_t MOST_NUMBERED = 255;
// Levels and the NULLs have numbers up to this one.
constexpr size_t MOST_NUMBER = TK_MOST_LEVEL;

// The number that most rows have.
int32_t most_frequent(const std::vector<int64_t> &count, const std::vector<int32_t> &number,
                      size_t n) {
    std::vector<int64_t> rows(n);
    for (size_t k = 0; k < count.size(); k++)
        if (number[k] != NONE)
            rows[(size_t)number[k]] += count[k];
    return (int32_t)(std::max_element(rows.begin(), rows.end()) - rows.begin());
}

} // namespace

void number_levels(const tk_preparing *how, Columns *out) {
    for (Column &c : out->columns)
        if (how->level_numbers && c.kind == Kind::CATEGORY)
            c.kind = Kind::LEVELS;
}

void place_levels(Column &c, const std::vector<int64_t> &count, KnownLevels known,
                  const tk_preparing *how, int32_t *next) {
    std::vector<std::string_view> &levels = known.levels;
    std::vector<int32_t> &number = known.place;
    std::vector<bool> kept = kept_levels(count, how);
    std::vector<size_t> order;
    for (size_t k = 0; k < kept.size() && !known.closed; k++)
        if (kept[k] && number[k] == NONE)
            order.push_back(k);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return count[a] > count[b]; });
    if (how->level_numbers == TK_NUMBERS_OF_CATEGORIES)
        order.resize(std::min(
            {order.size(), MOST_NUMBERED, MOST_NUMBER - std::min(MOST_NUMBER, levels.size())}));
    for (size_t k : order) {
        number[k] = (int32_t)levels.size();
        levels.push_back(c.levels[k]);
    }
    bool own_level = how->missing == TK_MISSING_LEVEL || how->missing == TK_MISSING_KEEP;
    bool gaps = c.n_missing || known.missing;
    c.first = (*next)++;
    c.width = 1;
    c.other = std::find(number.begin(), number.end(), NONE) < number.end() ? c.first : NONE;
    c.missing = gaps && own_level ? c.first : NONE;
    c.fill_level = known.closed     ? most_frequent(count, number, levels.size())
                   : levels.empty() ? NONE
                                    : 0;
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
