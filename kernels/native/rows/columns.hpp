// Conversion of a group's rows with names to features: levels of categories, values that fill
// gaps, parts of dates, interactions, hashed words, and the features of each.
#pragma once

#include <cmath>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "../../../udas/rowblock/derived.h"
#include "../../../udas/rowblock/named.h"
#include "../shared/pool.hpp"
#include "api.h"

namespace tusk {

constexpr int32_t NONE = -1; // no feature: a level of weight 0, or an irrelevant level
constexpr size_t MOST_LEVELS = 100000;

// A number: one feature. A category: one per level. A cycle: sine and cosine of a part of a date.
// A product: one per combination of its factors' features that occurs. Words: one per bucket that
// occurs.
// Levels: a category as one number, that of its level, the most frequent one first.
enum class Kind { NUMBER, CATEGORY, CYCLE, PRODUCT, WORDS, LEVELS };

// The features of a value of a column: up to two, as for a cycle.
struct Entries {
    int n = 0;
    int32_t feature[2];
    double value[2];

    void put(int32_t f, double x) {
        if (f == NONE)
            return;
        feature[n] = f;
        value[n++] = x;
    }
};

// Finds the code of a number among those that occur.
struct Codes {
    std::vector<int32_t> small; // of whole numbers from 0 on
    std::unordered_map<double, int32_t> others;

    void put(double x, int32_t code) {
        if (x >= 0 && x < 4096 && x == (double)(int32_t)x) {
            if (small.size() <= (size_t)x)
                small.resize((size_t)x + 1, NONE);
            small[(size_t)x] = code;
        } else {
            others.emplace(x, code);
        }
    }
    int32_t at(double x) const {
        if (x >= 0 && x < (double)small.size() && x == (double)(int32_t)x)
            return small[(size_t)x];
        auto found = others.find(x);
        return found == others.end() ? NONE : found->second;
    }
};

// The words of one text: bucket and count, in order of the bucket.
using Words = std::vector<std::pair<int32_t, int32_t>>;

struct Column {
    std::string name;             // of the features
    std::string_view source_name; // of the column in the rows
    size_t source = 0;            // its index there
    Kind kind = Kind::NUMBER;
    tusk_date_part part = TUSK_WHOLE;
    bool of_numbers = false; // a category whose values are numbers
    bool absorbed = false;   // by the option of this name
    // Naming of its features: whether all levels are in quotation marks, and whether features may
    // be called [other] and [missing], so that levels of these names must be.
    bool quoted = false, may_be_other = false, may_be_missing = false;

    std::vector<std::string_view> levels; // in order; without those that have no feature of their
                                          // own, except for the reference
    std::vector<std::vector<int32_t>> feature; // by part and code, or NONE; numbers have one part
    Codes code;                                // of numbers
    std::vector<std::vector<int32_t>> wide;    // of wide ids (TUSK_WIDE_ID): by part and code, the
                                               // code as of numbers

    std::vector<size_t> factors;                   // of a product: indices in columns
    std::unordered_map<uint64_t, int32_t> product; // feature by combination
    std::vector<std::vector<Words>> words;         // by part and code; buckets, then features
    std::vector<uint64_t> keys;                    // combinations or buckets with a feature

    bool reference = false; // whether the first level has no feature
    int32_t first = NONE;   // a number's feature, or that of the first level
    int32_t width = 0;      // features without the indicator
    int32_t other = NONE, missing = NONE, indicator = NONE;
    int64_t n_missing = 0;
    size_t levels_of_rows = 0;     // for a category whose levels hardly repeat, the number that
                                   // occur
    bool reads_as_numbers = false; // whether these are texts of numbers
    double fill = 0;               // for a missing number
    int32_t fill_level = NONE;     // for a missing category, the index in levels

    bool is_category() const { return kind == Kind::CATEGORY || kind == Kind::LEVELS; }
    int32_t feature_of_level(int32_t level) const {
        return level == NONE || (reference && level == 0) ? NONE : first + level - reference;
    }
    int32_t code_of(double x, size_t p) const {
        return of_numbers ? feature[0][(size_t)code_of_number(x, p)] : feature[p][(size_t)x];
    }
    int32_t code_of_number(double x, size_t p) const {
        return x >= TUSK_WIDE_ID && !wide.empty() ? wide[p][tusk_code_of_wide(x)]
                                                  : code.at(tusk_part_of(x, part));
    }

    // The number of the level of a value, NaN for a rare one.
    double level_number(double x, size_t p) const {
        int32_t level = !std::isnan(x)    ? code_of(x, p)
                        : missing == NONE ? fill_level
                                          : (int32_t)levels.size();
        return level == NONE ? std::nan("") : level;
    }

    // The features of a value; NaN for a NULL. Not for products and words.
    Entries entries_of(double x, size_t p) const {
        Entries e;
        if (kind == Kind::LEVELS) {
            e.put(first, level_number(x, p));
            return e;
        }
        if (kind == Kind::CATEGORY) {
            e.put(!std::isnan(x)    ? code_of(x, p)
                  : missing != NONE ? missing
                                    : feature_of_level(fill_level),
                  1);
            return e;
        }
        double value = std::isnan(x) ? fill : tusk_part_of(x, part);
        if (kind == Kind::NUMBER) {
            e.put(first, value);
        } else {
            e.put(first, std::sin(tusk_angle(value, part)));
            e.put(first + 1, std::cos(tusk_angle(value, part)));
        }
        return e;
    }
};

// A column that is not a feature: its values determine which rows belong together, or their order.
struct Marks {
    size_t column = 0;
    std::vector<std::vector<int32_t>> of_code; // of text, by part and code
    std::vector<std::string_view> levels;      // of text, the values by index
};

struct Columns {
    std::vector<const tusk_part *> parts;
    std::vector<Column> columns;
    std::deque<std::string> texts; // of levels that are numbers
    Column label;                  // of text; its features are classes
    int32_t n_features = 0;
    int32_t entries = 0;   // largest number of nonzero features in a row, without words
    bool wordy = false;    // whether a column is text of words
    Marks clusters, folds; // if the options name such columns
};

// Calls put(key, value) for each combination of features of a row in a product. at: by column.
template <class Put>
void each_combination(const Columns &all, const Column &c, const Entries *at, Put put) {
    uint64_t key[32] = {0};
    double value[32] = {1};
    int n = 1;
    for (size_t f : c.factors) {
        const Entries &e = at[f];
        for (int i = n * e.n - 1; i >= 0; i--) { // backwards, so that nothing is overwritten early
            int from = i % n, to = i / n;
            key[i] = key[from] * (uint64_t)all.columns[f].width +
                     (uint64_t)(e.feature[to] - all.columns[f].first);
            value[i] = value[from] * e.value[to];
        }
        n *= e.n;
    }
    for (int i = 0; i < n; i++)
        put(key[i], value[i]);
}

// The option that names the column of folds.
inline const char *fold_option(const tk_preparing *how) {
    return how->fold_in_time ? "time_by" : "fold_by";
}

// Lists the columns of a group's rows by the caller's options. Returns a tk_code, with a sentence
// in error if there are no such columns.
int list_columns(const tusk_group *group, const tk_preparing *how, Columns *out,
                 std::string *error);

// Rejects rows whose columns differ from those that were counted in all parts (how->census).
int check_census(const tusk_group *group, const tk_preparing *how, const Columns &columns,
                 std::string *error);

// Decides the features of a group on `threads` threads. Returns a tk_code, with a sentence in
// error if the data are rejected.
int decide_columns(const tusk_group *group, const tk_preparing *how, int threads, Columns *out,
                   std::string *error);

// The same without products.
int decide_own(const tusk_group *group, const tk_preparing *how, int threads, Columns *out,
               std::string *error);

// Selects the levels to keep: frequent ones, and of these the most frequent. count: by level.
std::vector<bool> kept_levels(const std::vector<int64_t> &count, const tk_preparing *how);

// The levels of a category that the caller knows, and the place among them of each of its own, or
// NONE.
struct KnownLevels {
    bool closed = false, missing = false;
    std::vector<std::string_view> levels;
    std::vector<int32_t> place;
};
// Finds these; texts keeps levels that are numbers. Rejects levels of a category of numbers that
// are no numbers or repeat, and rows with others than closed ones as how->unseen says. seen: the
// rows by level.
int find_known(const Column &c, const tk_preparing *how, const std::vector<int64_t> &seen,
               std::deque<std::string> *texts, KnownLevels *found, std::string *error);
// Whether the caller fixed the levels of a category.
bool is_closed(const Column &c, const tk_preparing *how);
// Makes closed levels those of a category, and counts its rows by them. `feature` holds places in
// levels. Returns whether rows have others.
bool close_levels(Column &c, const KnownLevels &known, std::vector<int64_t> *count);

// Replaces categories by numbers of their levels, if the caller requests it.
void number_levels(const tk_preparing *how, Columns *out);
// Assigns such a category its feature. count: the rows of each of its levels.
void place_levels(Column &c, const std::vector<int64_t> &count, KnownLevels known,
                  const tk_preparing *how, int32_t *next);
// A byte for each feature, 1 where values are numbers of levels; nothing if there are none.
std::string levels_of(const Columns &columns);

// Marks the category as one whose levels hardly repeat in n rows, if so.
void look_at_levels(Column &c, int64_t n);
// The names of such categories, "" for the label, their numbers of levels, and whether these are
// numbers: 1 or 0.
std::string unlike_of(const Columns &columns);

// Assigns products and words their features, after those of all other columns.
int decide_products(const tusk_group *group, const tk_preparing *how, Columns *out, int32_t *next,
                    std::string *error);
int decide_words(const tk_preparing *how, Columns *out, size_t column, int32_t *next,
                 std::string *error);

// Number of rows with each combination of features, and the buckets of the words of a column.
using Combinations = std::unordered_map<uint64_t, int64_t>;
int count_products(const tusk_group *group, const tk_preparing *how, const Columns &all,
                   std::vector<Combinations> *counts);
std::vector<uint64_t> buckets_in(const Columns &all, const tk_preparing *how, const Column &c);

int refuse_levels(const std::string &name, size_t n, std::string *error);

// Whether a number can identify a level. Larger whole numbers were rounded when they became
// doubles, so that several of them may coincide.
inline bool is_name(double x) {
    return std::abs(x) < 9007199254740992.0; // 2^53
}
int refuse_rounded(const char *option, std::string_view name, std::string *error);
int refuse_rounded_ids(std::string_view name, std::string *error);

// The features' names, each terminated by 0, and the whole as JSON.
std::string names_of(const Columns &c);
std::string json_of(const Columns &c, const tk_preparing *how);

std::string_view level_text(const tusk_levels &l, uint32_t code);

void add_json_text(std::string &out, std::string_view text);

// Calls body(segment, part) for the segments of a group.
template <class Body> int each_part_segment(const tusk_group *group, Body &&body) {
    size_t part = 0;
    const tusk_part *next = group->parts ? group->parts->next : nullptr;
    for (const tusk_segment *s = group->head; s; s = s->next) {
        while (next && (!next->head || next->head == s)) {
            part++;
            next = next->next;
        }
        if (int code = body(s, part))
            return code;
    }
    return TK_OK;
}

// Calls body(x) for each row of a segment, x being its columns.
template <class Body>
void each_row_of(const tusk_segment *s, const tusk_schema *schema, Body &&body) {
    auto rows = [&](auto *x) {
        for (uint32_t row = 0; row < s->n_rows; row++, x += schema->n_columns)
            body(x);
    };
    schema->f64 ? rows((const double *)tusk_dense_values(s))
                : rows((const float *)tusk_dense_values(s));
}

// Calls body(x, part) for each row of a group.
template <class Body> int each_row(const tusk_group *group, int64_t mark, Body &&body) {
    return each_part_segment(group, [&](const tusk_segment *s, size_t part) {
        if (cancelled(mark))
            return (int)TK_CANCELLED;
        each_row_of(s, group->parts->schema, [&](const auto *x) { body(x, part); });
        return (int)TK_OK;
    });
}

} // namespace tusk
