// How a group's rows with names become features: levels of categories, what fills gaps, and
// which features each column becomes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "../../../udas/rowblock/named.h"
#include "api.h"

namespace tusk {

constexpr int32_t NONE = -1; // no feature: a level that weighs 0, or a level of no interest

struct Column {
    std::string_view name;
    bool category = false;
    std::vector<std::string_view> levels; // in order; those that have no feature of their own are
                                          // not among them, except for the reference
    std::vector<std::vector<int32_t>> feature; // by part and code, or NONE
    bool reference = false;                    // whether the first level has no feature
    int32_t first = NONE;                      // a number's feature, or that of the first level
    int32_t other = NONE, missing = NONE, indicator = NONE;
    int64_t n_missing = 0;
    double fill = 0;           // for a missing number
    int32_t fill_level = NONE; // for a missing category, the place in levels

    int32_t feature_of_level(int32_t level) const {
        return level == NONE || (reference && level == 0) ? NONE : first + level - reference;
    }
};

struct Columns {
    std::vector<const tusk_part *> parts;
    std::vector<Column> columns;
    Column label; // of text; its features are classes
    int32_t n_features = 0;
    int32_t entries = 0; // most features that are not 0 in a row
};

// Decides about a group. Returns a tk_code, with a sentence in error if the data are refused.
int decide_columns(const tusk_group *group, const tk_preparing *how, Columns *out,
                   std::string *error);

// The features' names, each with a 0 behind it, and the whole as JSON.
std::string names_of(const Columns &c);
std::string json_of(const Columns &c, const tk_preparing *how);

// Calls body(segment, part) for the segments of a group.
template <class Body> int each_part_segment(const tusk_group *group, int64_t mark, Body &&body) {
    size_t part = 0;
    const tusk_part *next = group->parts ? group->parts->next : nullptr;
    for (const tusk_segment *s = group->head; s; s = s->next) {
        while (next && (!next->head || next->head == s)) {
            part++;
            next = next->next;
        }
        if (int code = body(s, part))
            return code;
        (void)mark;
    }
    return TK_OK;
}

} // namespace tusk
