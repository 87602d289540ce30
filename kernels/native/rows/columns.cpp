#include "columns.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>

#include "../../../udas/rowblock/merge.h"
#include "../shared/pool.hpp"
#include "census/census.hpp"

namespace tusk {
namespace {

std::string quoted(std::string_view text) {
    std::string out(1, '\'');
    return out.append(text.substr(0, 200)).append(1, '\'');
}

// Drops rare levels; place, by part and code, becomes NONE for them. Returns whether there are
// any.
bool drop_rare(Column &c, const std::vector<bool> &kept) {
    std::vector<int32_t> moved(kept.size(), NONE);
    std::vector<std::string_view> levels;
    for (size_t k = 0; k < kept.size(); k++)
        if (kept[k]) {
            moved[k] = (int32_t)levels.size();
            levels.push_back(c.levels[k]);
        }
    bool rare = levels.size() < c.levels.size();
    c.levels = std::move(levels);
    for (auto &part : c.feature)
        for (int32_t &k : part)
            k = k == NONE ? NONE : moved[k];
    return rare;
}

void fill_gaps(Column &c, const Seen &seen) {
    c.n_missing = seen.missing;
    c.fill = seen.n ? seen.sum.value() / (double)seen.n : 0;
}

// The most frequent of the kept levels.
int32_t usual_level(const Column &c, const Seen &seen, const std::vector<bool> &kept) {
    int32_t at = 0, best = NONE;
    int64_t most = -1;
    for (size_t k = 0; k < kept.size(); k++) {
        if (!kept[k])
            continue;
        if (seen.count[k] > most) {
            most = seen.count[k];
            best = at;
        }
        at++;
    }
    return c.levels.empty() ? NONE : best;
}

// The reference level that the option names for a category, or NULL.
const char *wanted_reference(const tk_preparing *how, std::string_view column) {
    const char *at = how->reference;
    for (int64_t k = 0; k < how->n_reference; k += 2) {
        const char *name = at, *level = name + std::strlen(name) + 1;
        if (!*name || column == name)
            return level;
        at = level + std::strlen(level) + 1;
    }
    return nullptr;
}

// The place in levels of one that rows have, or NONE.
int32_t level_called(const Column &c, const Seen &seen, std::string_view name) {
    char digits[TUSK_NUMBER_TEXT], *end;
    if (c.of_numbers) {
        const double number = std::strtod(name.data(), &end) + 0.0;
        if (*end || name.empty() || std::isnan(number))
            return NONE;
        name = {digits, tusk_number_text(number, digits)};
    }
    const size_t at = std::find(c.levels.begin(), c.levels.end(), name) - c.levels.begin();
    return at < c.levels.size() && seen.count[at] ? (int32_t)at : NONE;
}

int refuse_reference(const Column &c, const Seen &seen, std::string_view name,
                     std::string *error) {
    *error = "option 'reference' has " + quoted(name) + " for column " + quoted(c.name) +
             ", which the rows of a group do not have, expected ";
    size_t n = 0;
    for (size_t k = 0; k < c.levels.size(); k++)
        if (seen.count[k] && n++ < 10)
            error->append(n > 1 ? ", " : "").append(quoted(c.levels[k]));
    error->append(n > 10 ? ", ..." : n ? "" : "a level that they have");
    return TK_REFUSED;
}

// Makes a level the first one. `feature` holds places in levels.
void put_first(Column &c, int32_t level) {
    std::rotate(c.levels.begin(), c.levels.begin() + level, c.levels.begin() + level + 1);
    auto moved = [level](int32_t k) { return k == level ? 0 : k + (k != NONE && k < level); };
    for (auto &part : c.feature)
        for (int32_t &k : part)
            k = moved(k);
    c.fill_level = moved(c.fill_level);
}

// Leaves out rare levels and puts the wanted reference first, if one is wanted.
int choose_levels(const tk_preparing *how, const Seen &seen, const char *wanted, Column &c,
                  bool *rare, std::string *error) {
    std::vector<bool> kept = is_closed(c, how) ? std::vector<bool>(c.levels.size(), true)
                                               : kept_levels(seen.count, how);
    const int32_t named = wanted ? level_called(c, seen, wanted) : NONE;
    if (named != NONE)
        kept[(size_t)named] = true;
    else if (wanted && std::strcmp(wanted, "most frequent"))
        return refuse_reference(c, seen, wanted, error);
    const auto before = std::count(kept.begin(), kept.begin() + std::max(named, 0), true);
    *rare |= drop_rare(c, kept);
    c.fill_level = usual_level(c, seen, kept);
    if (wanted && !c.levels.empty())
        put_first(c, named == NONE ? c.fill_level : (int32_t)before);
    return TK_OK;
}

// Assigns a category its features. `feature`, by part and code, has indices of levels until then.
void place_category(Column &c, bool rare, bool all, const tk_preparing *how, int32_t *next) {
    bool gaps = c.n_missing > 0;
    bool own_level = gaps && (how->missing == TK_MISSING_LEVEL || how->missing == TK_MISSING_KEEP);
    c.reference = !all && !c.levels.empty() && (c.levels.size() > 1 || rare || own_level);
    c.first = *next;
    *next += (int32_t)c.levels.size() - c.reference;
    if (rare)
        c.other = (*next)++;
    if (own_level)
        c.missing = (*next)++;
    c.width = *next - c.first;
    for (auto &part : c.feature)
        for (int32_t &k : part)
            k = k == NONE ? c.other : c.feature_of_level(k);
}

void place_number(Column &c, int32_t *next) {
    c.first = *next;
    c.width = c.kind == Kind::CYCLE ? 2 : 1;
    *next += c.width;
}

int refuse_gaps(const Column &c, int64_t n, std::string *error) {
    *error = "column '" + std::string(c.name.substr(0, 200)) + "' is NULL in " +
             std::to_string(n) + " rows of a group, expected none as option 'missing' is 'error'";
    return TK_REFUSED;
}

// Rejects rows without a mark, which belong to no fold and which option 'missing' may have kept,
// and rows whose mark was rounded.
int refuse_marks(const tusk_group *group, const tk_preparing *how, const char *option,
                 const char *name, size_t column, std::string *error) {
    int64_t n = 0;
    bool names = true;
    int code = each_row(group, how->cancel_mark, [&](const auto *x, size_t) {
        const double mark = (double)x[column];
        n += std::isnan(mark);
        names &= std::isnan(mark) || is_name(mark);
    });
    if (code)
        return code;
    if (!names)
        return refuse_rounded(option, name, error);
    if (!n)
        return TK_OK;
    *error = "column '" + std::string(name).substr(0, 200) + "' is NULL in " + std::to_string(n) +
             " rows of a group, expected none as option '" + option +
             "' names it: option 'missing' has 'skip' for such rows";
    return TK_REFUSED;
}

int check_marks(const tusk_group *group, const tk_preparing *how, const Columns &c,
                std::string *error) {
    if (how->cluster)
        if (int code = refuse_marks(group, how, "cluster", how->cluster, c.clusters.column, error))
            return code;
    if (!how->fold)
        return TK_OK;
    return refuse_marks(group, how, fold_option(how), how->fold, c.folds.column, error);
}

// Assigns the labels the numbers of the caller's classes.
int name_classes(const tk_preparing *how, Column &label, std::string *error) {
    std::vector<std::string_view> names;
    const char *at = how->classes;
    for (int64_t k = 0; k < how->n_classes; k++, at += names.back().size() + 1)
        names.push_back(at);
    std::vector<int32_t> number;
    for (std::string_view level : label.levels) {
        size_t k = std::find(names.begin(), names.end(), level) - names.begin();
        if (k == names.size()) {
            *error = "label is " + quoted(level) + ", expected " + quoted(names[0]);
            for (size_t n = 1; n + 1 < std::min<size_t>(names.size(), 10); n++)
                *error += ", " + quoted(names[n]);
            *error += " or " + quoted(names.back()) + " as the options have";
            return TK_REFUSED;
        }
        number.push_back((int32_t)k);
    }
    for (auto &part : label.feature)
        for (int32_t &k : part)
            k = number[k];
    label.levels = std::move(names);
    return TK_OK;
}

// Assigns the labels the numbers of the values of their ENUM, whose codes are in its order.
int order_classes(const tusk_group *group, Column &label, std::string *error) {
    if (group->parts->schema->text_label != TUSK_ORDERED) {
        *error = "labels are text such as " + quoted(label.levels[0]) +
                 ", which has no order: cast them to an ENUM whose values rise, or give option "
                 "'classes', a list of them from the lowest on";
        return TK_REFUSED;
    }
    const tusk_levels &values = group->parts->levels[group->parts->schema->n_columns];
    label.levels.clear();
    for (uint32_t code = 0; code < values.n; code++)
        label.levels.push_back(level_text(values, code));
    for (auto &part : label.feature)
        std::iota(part.begin(), part.end(), 0);
    return TK_OK;
}

// Assigns labels that are text their numbers.
int number_classes(const tusk_group *group, const tk_preparing *how, Column &label,
                   std::string *error) {
    if (label.levels.empty())
        return TK_OK;
    return how->n_classes ? name_classes(how, label, error)
           : how->ordered ? order_classes(group, label, error)
                          : TK_OK;
}

bool needs_look(const Columns &columns, const tk_preparing *how) {
    bool look = how->missing != TK_MISSING_SKIP || how->min_count > 1 || how->level_numbers ||
                how->n_reference || how->n_known;
    for (const Column &c : columns.columns)
        look |= how->max_categories && c.levels.size() > (size_t)how->max_categories;
    return look;
}

// Assigns one column its features. seen: NULL if the rows were not read; n: rows with a value.
int decide_one(const tk_preparing *how, Seen *seen, int64_t n, Columns *out, size_t j, bool all,
               std::string *error) {
    Column &c = out->columns[j];
    int32_t *next = &out->n_features;
    if (seen && seen->missing && how->missing == TK_MISSING_ERROR)
        return refuse_gaps(c, seen->missing, error);
    if (seen)
        fill_gaps(c, *seen);
    if (how->missing == TK_MISSING_KEEP)
        c.fill = std::numeric_limits<double>::quiet_NaN();
    if (c.kind == Kind::WORDS)
        return decide_words(how, out, j, next, error);
    if (!c.is_category()) {
        place_number(c, next);
        return TK_OK;
    }
    KnownLevels known;
    if (seen)
        if (int code = find_known(c, how, seen->count, &out->texts, &known, error))
            return code;
    if (!known.closed && how->level_numbers != TK_NUMBERS_OF_NAMES)
        look_at_levels(c, n);
    if (c.kind == Kind::LEVELS) {
        place_levels(c, seen->count, std::move(known), how, next);
        return TK_OK;
    }
    bool rare = known.closed && close_levels(c, known, &seen->count);
    const char *wanted = all ? nullptr : wanted_reference(how, c.name);
    if (seen)
        if (int code = choose_levels(how, *seen, wanted, c, &rare, error))
            return code;
    if (c.levels.size() > MOST_LEVELS)
        return refuse_levels(c.name, c.levels.size(), error);
    place_category(c, rare, all, how, next);
    return TK_OK;
}

// Parts of one date share an indicator.
void place_indicator(Columns *out, size_t j, const tk_preparing *how, int32_t *next) {
    Column &c = out->columns[j];
    bool first = j == 0 || out->columns[j - 1].source != c.source;
    bool wanted = c.n_missing && (how->missing == TK_MISSING_IMPUTE ||
                                  (how->missing == TK_MISSING_LEVEL && !c.is_category()));
    if (first && wanted && !c.absorbed)
        c.indicator = (*next)++;
    out->entries += (c.kind == Kind::CYCLE ? 2 : c.kind != Kind::WORDS) + (c.indicator != NONE);
}

} // namespace

std::string_view level_text(const tusk_levels &l, uint32_t code) {
    uint32_t begin = code ? l.end[code - 1] : 0;
    return {l.text + begin, l.end[code] - begin};
}

std::vector<bool> kept_levels(const std::vector<int64_t> &count, const tk_preparing *how) {
    std::vector<bool> kept(count.size());
    std::vector<size_t> order;
    for (size_t k = 0; k < kept.size(); k++)
        if (count[k] >= how->min_count)
            order.push_back(k);
    if (how->max_categories && order.size() > (size_t)how->max_categories) {
        std::stable_sort(order.begin(), order.end(),
                         [&](size_t a, size_t b) { return count[a] > count[b]; });
        order.resize((size_t)how->max_categories);
    }
    for (size_t k : order)
        kept[k] = true;
    return kept;
}

int refuse_rounded(const char *option, std::string_view name, std::string *error) {
    bool time = !std::strcmp(option, "time_by");
    *error = "option '" + std::string(option) + "' names column '" +
             std::string(name.substr(0, 200)) +
             "', which has numbers of 2^53 = 9007199254740992 or more in size, expected smaller "
             "ones, since larger whole numbers are rounded and would become the same: " +
             (time ? "make it a timestamp or divide it" : "cast it to text");
    return TK_REFUSED;
}

int refuse_rounded_ids(std::string_view name, std::string *error) {
    *error =
        "column '" + std::string(name.substr(0, 200)) +
        "' has numbers of 2^53 = 9007199254740992 or more in size, expected smaller ids, since "
        "larger whole numbers are rounded and would become the same: make it BIGINT or text";
    return TK_REFUSED;
}

int refuse_levels(const std::string &name, size_t n, std::string *error) {
    *error = "column '" + name.substr(0, 200) + "' has " + std::to_string(n) +
             " distinct values in a group, at most " + std::to_string(MOST_LEVELS) +
             " are allowed: give option 'max_categories' or 'min_count', or leave it out";
    return TK_REFUSED;
}

int decide_own(const tusk_group *group, const tk_preparing *how, int threads, Columns *out,
               std::string *error) {
    if (int code = list_columns(group, how, out, error))
        return code;
    if (int code = check_census(group, how, *out, error))
        return code;
    if (int code = check_marks(group, how, *out, error))
        return code;
    number_levels(how, out);
    if (int code = find_levels(group, how, threads, out, error))
        return code;
    if (const ColumnCounts *known = known_of_label(how); !how->n_classes && !how->ordered)
        look_at_levels(out->label, known ? known->n : tusk_rows_given(group));
    if (int code = number_classes(group, how, out->label, error))
        return code;
    std::vector<Seen> seen(out->columns.size());
    bool look = needs_look(*out, how);
    if (look)
        if (int code = look_at_rows(group, how, threads, *out, seen))
            return code;
    bool all = how->levels != TK_BUT_REFERENCE;
    const int64_t given = tusk_rows_given(group);
    for (size_t j = 0; j < out->columns.size(); j++) {
        Column &c = out->columns[j];
        if (c.kind == Kind::PRODUCT)
            break; // they come last
        const ColumnCounts *known = known_of(how, j);
        const int64_t n = known ? known->n : given - seen[j].missing;
        if (int code = decide_one(how, look ? &seen[j] : nullptr, n, out, j, all, error))
            return code;
        if (c.is_category())
            all = how->levels == TK_ALL_LEVELS;
        place_indicator(out, j, how, &out->n_features);
    }
    return TK_OK;
}

int decide_columns(const tusk_group *group, const tk_preparing *how, int threads, Columns *out,
                   std::string *error) {
    if (int code = decide_own(group, how, threads, out, error))
        return code;
    return decide_products(group, how, out, &out->n_features, error);
}

} // namespace tusk
