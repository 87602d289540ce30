// Levels of categories that the caller knows before the rows are read.
#include <algorithm>
#include <cstdlib>

#include "columns.hpp"

namespace tusk {
namespace {

const tk_known_levels *known_of(const Column &c, const tk_preparing *how) {
    for (int32_t i = 0; i < how->n_known; i++)
        if (c.name == how->known[i].column)
            return how->known + i;
    return nullptr;
}

std::vector<std::string_view> texts_of(const tk_known_levels *known) {
    std::vector<std::string_view> texts;
    int64_t begin = 0;
    for (int64_t k = 0; known && k < known->n; begin = known->ends[k++])
        texts.emplace_back(known->text + begin, (size_t)(known->ends[k] - begin));
    return texts;
}

std::string about(const Column &c, std::string_view level) {
    return "option 'levels' has '" + std::string(level.substr(0, 200)) + "' for column '" +
           c.name.substr(0, 200) + "', expected ";
}

// Writes levels of a category of numbers as its own are written.
int write_numbers(const Column &c, std::vector<std::string_view> &levels,
                  std::deque<std::string> *texts, std::string *error) {
    for (std::string_view &level : levels) {
        const std::string given(level);
        char digits[TUSK_NUMBER_TEXT], *end;
        const double number = std::strtod(given.c_str(), &end) + 0.0;
        if (*end || given.empty() || !is_name(number)) {
            *error = about(c, level) + "numbers below 2^53";
            return TK_REFUSED;
        }
        texts->emplace_back(digits, tusk_number_text(number, digits));
        level = texts->back();
    }
    return TK_OK;
}

int find_places(const Column &c, KnownLevels *known, std::string *error) {
    std::unordered_map<std::string_view, int32_t> place;
    for (std::string_view level : known->levels)
        if (!place.emplace(level, (int32_t)place.size()).second) {
            *error = about(c, level) + "each level once";
            return TK_REFUSED;
        }
    for (std::string_view level : c.levels) {
        auto found = place.find(level);
        known->place.push_back(found == place.end() ? NONE : found->second);
    }
    return TK_OK;
}

int refuse_others(const Column &c, const tk_preparing *how, const KnownLevels &known,
                  const std::vector<int64_t> &seen, std::string *error) {
    for (size_t k = 0; k < c.levels.size(); k++)
        if (seen[k] && known.place[k] == NONE) {
            *error = "column '" + c.name.substr(0, 200) + "' has '" +
                     std::string(c.levels[k].substr(0, 200)) +
                     "' in the rows of a group, which option 'levels' does not have: expected no "
                     "such rows, or option 'unseen' to be 'other' instead of '" +
                     (how->unseen == TK_UNSEEN_ERROR ? "error'" : "null'");
            return TK_REFUSED;
        }
    return TK_OK;
}

} // namespace

bool is_closed(const Column &c, const tk_preparing *how) {
    const tk_known_levels *known = known_of(c, how);
    return known && known->closed;
}

int find_known(const Column &c, const tk_preparing *how, const std::vector<int64_t> &seen,
               std::deque<std::string> *texts, KnownLevels *found, std::string *error) {
    const tk_known_levels *known = known_of(c, how);
    found->levels = texts_of(known);
    found->closed = known && known->closed;
    found->missing = known && known->missing;
    if (found->closed && c.of_numbers)
        if (int code = write_numbers(c, found->levels, texts, error))
            return code;
    if (int code = find_places(c, found, error))
        return code;
    if (!found->closed || how->unseen == TK_UNSEEN_OTHER)
        return TK_OK;
    return refuse_others(c, how, *found, seen, error);
}

bool close_levels(Column &c, const KnownLevels &known, std::vector<int64_t> *count) {
    std::vector<int64_t> rows(known.levels.size());
    bool others = false;
    for (size_t k = 0; k < count->size(); k++)
        if (known.place[k] == NONE)
            others |= (*count)[k] > 0;
        else
            rows[(size_t)known.place[k]] = (*count)[k];
    *count = std::move(rows);
    c.levels = known.levels;
    for (auto &part : c.feature)
        for (int32_t &k : part)
            k = known.place[(size_t)k];
    return others;
}

} // namespace tusk
