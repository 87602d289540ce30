// Lists the features of a group's columns by the options.
#include "columns.hpp"

#include <algorithm>
#include <cstring>

namespace tusk {
namespace {

// Consecutive names, each terminated by 0.
struct Names {
    const char *at;
    int64_t left;

    bool next(std::string_view *name) {
        if (!left || !at)
            return false;
        left--;
        *name = at;
        at += name->size() + 1;
        return true;
    }
};

bool is_listed(const char *names, int64_t n, std::string_view wanted) {
    Names all{names, n};
    for (std::string_view name; all.next(&name);)
        if (name == wanted)
            return true;
    return false;
}

Column column_of(std::string_view name, size_t source, Kind kind) {
    Column c;
    c.name = name;
    c.source_name = name;
    c.source = source;
    c.kind = kind;
    return c;
}

void add_part(Columns *out, const Column &date, tusk_date_part part, Kind kind) {
    Column c = date;
    c.name.append(".").append(TUSK_PART_NAMES[part]);
    c.kind = kind;
    c.part = part;
    c.of_numbers = kind == Kind::CATEGORY;
    out->columns.push_back(std::move(c));
}

void add_date(Columns *out, const Column &date, bool has_time, const tk_preparing *how) {
    Kind kind = how->dates == TK_DATES_PARTS ? Kind::CATEGORY : Kind::CYCLE;
    add_part(out, date, TUSK_YEAR, Kind::NUMBER);
    add_part(out, date, TUSK_MONTH, kind);
    add_part(out, date, TUSK_WEEKDAY, kind);
    if (has_time)
        add_part(out, date, TUSK_HOUR, kind);
}

void add_column(Columns *out, const tusk_schema *schema, size_t j, const tk_preparing *how) {
    std::string_view name = schema->name[j];
    int kind = schema->kind[j];
    bool absorbed = is_listed(how->absorbed, how->n_absorbed, name);
    bool category = how->level_numbers == TK_NUMBERS_OF_NAMES || absorbed ||
                    is_listed(how->categories, how->n_categories, name);
    Column c = column_of(name, j, Kind::NUMBER);
    c.absorbed = absorbed;
    if (kind == TUSK_CATEGORY) {
        c.kind = is_listed(how->words, how->n_words, name) ? Kind::WORDS : Kind::CATEGORY;
        out->wordy |= c.kind == Kind::WORDS;
    } else if (category) {
        c.kind = Kind::CATEGORY;
        c.of_numbers = true;
    } else if (kind != TUSK_NUMBER && how->dates != TK_DATES_DAYS) {
        add_date(out, c, kind == TUSK_TIMESTAMP, how);
        return;
    }
    out->columns.push_back(std::move(c));
}

int refuse_name(const char *option, std::string_view name, const std::string &there,
                const char *what, std::string *error) {
    *error = std::string("option '") + option + "' names '" + std::string(name.substr(0, 100)) +
             "', expected " + what + ": " + there.substr(0, 600);
    return TK_REFUSED;
}

void add_to_list(std::string &list, std::string_view name) {
    if (!list.empty())
        list += ", ";
    list += name;
}

// The names of the columns, optionally of text only.
std::string listed(const tusk_schema *schema, bool text) {
    std::string all;
    for (int32_t j = 0; j < schema->n_columns; j++)
        if (!text || schema->kind[j] == TUSK_CATEGORY)
            add_to_list(all, schema->name[j]);
    return all.empty() ? "none" : all;
}

bool has_column(const tusk_schema *schema, std::string_view name, bool text) {
    for (int32_t j = 0; j < schema->n_columns; j++)
        if (name == schema->name[j])
            return !text || schema->kind[j] == TUSK_CATEGORY;
    return false;
}

int check_names(const tusk_schema *schema, const tk_preparing *how, std::string *error) {
    Names categories{how->categories, how->n_categories}, words{how->words, how->n_words};
    for (std::string_view name; categories.next(&name);)
        if (!has_column(schema, name, false))
            return refuse_name("categories", name, listed(schema, false), "a column of the rows",
                               error);
    Names absorbed{how->absorbed, how->n_absorbed};
    for (std::string_view name; absorbed.next(&name);)
        if (!has_column(schema, name, false))
            return refuse_name("absorb", name, listed(schema, false), "a column of the rows",
                               error);
    for (std::string_view name; words.next(&name);)
        if (!has_column(schema, name, true))
            return refuse_name("text", name, listed(schema, true), "a column of text", error);
    return TK_OK;
}

// The names of categories.
std::string categories_in(const Columns &all) {
    std::string there;
    for (const Column &c : all.columns)
        if (c.kind == Kind::CATEGORY)
            add_to_list(there, c.name);
    return there.empty() ? "none" : there;
}

bool has_category(const Columns &all, std::string_view name) {
    for (const Column &c : all.columns)
        if (c.kind == Kind::CATEGORY && c.name == name)
            return true;
    return false;
}

// Checks that fixed levels are of categories.
int check_levels(const Columns &all, const tk_preparing *how, std::string *error) {
    for (int32_t i = 0; i < how->n_known; i++)
        if (how->known[i].closed && !has_category(all, how->known[i].column))
            return refuse_name("levels", how->known[i].column, categories_in(all), "a category",
                               error);
    return TK_OK;
}

// Checks that reference levels are of categories.
int check_references(const Columns &all, const tk_preparing *how, std::string *error) {
    Names names{how->reference, how->n_reference};
    for (std::string_view name, level; names.next(&name) && names.next(&level);) {
        if (!name.empty() && !has_category(all, name))
            return refuse_name("reference", name, categories_in(all), "a category", error);
    }
    return TK_OK;
}

// Checks that a gap is in the unit of the column whose distances it limits.
int check_gap(const tusk_schema *schema, const tk_preparing *how, std::string *error) {
    bool wants_days = how->fold_in_time == TK_TIME_GAP_IN_DAYS;
    if (!how->fold || (!wants_days && how->fold_in_time != TK_TIME_GAP_IN_NUMBERS))
        return TK_OK;
    for (int32_t j = 0; j < schema->n_columns; j++) {
        bool in_days = schema->kind[j] == TUSK_DATE || schema->kind[j] == TUSK_TIMESTAMP;
        if (std::strcmp(schema->name[j], how->fold) || in_days == wants_days)
            continue;
        *error = std::string("option 'gap' is ") + (wants_days ? "an interval" : "a number") +
                 ", and column '" + std::string(how->fold).substr(0, 100) + "' holds " +
                 (in_days ? "dates or times: expected an interval such as '7 days'"
                          : "numbers: expected a number in its unit");
        return TK_REFUSED;
    }
    return TK_OK;
}

// Checks the columns that are not features.
int check_marks(const tusk_schema *schema, const tk_preparing *how, std::string *error) {
    const char *options[] = {"cluster", fold_option(how)}, *names[] = {how->cluster, how->fold};
    int distinct = how->cluster && how->fold && std::strcmp(how->cluster, how->fold) ? 2 : 1;
    for (int k = 0; k < 2; k++) {
        if (!names[k])
            continue;
        if (!has_column(schema, names[k], false))
            return refuse_name(options[k], names[k], listed(schema, false), "a column of the rows",
                               error);
        if (schema->n_columns <= distinct)
            return refuse_name(options[k], names[k], "there is no other",
                               "a column beside the features", error);
    }
    if (how->fold && how->fold_in_time && has_column(schema, how->fold, true))
        return refuse_name("time_by", how->fold, "it is text",
                           "a column of dates, times or numbers", error);
    return check_gap(schema, how, error);
}

// Adds the interactions, which are lists of names with an empty name after each.
int add_products(const tk_preparing *how, Columns *out, std::string *error) {
    size_t n = out->columns.size();
    Names all{how->interactions, how->n_interactions};
    Column c = column_of("", 0, Kind::PRODUCT);
    for (std::string_view name; all.next(&name);) {
        if (name.empty()) {
            out->columns.push_back(std::move(c));
            c = column_of("", 0, Kind::PRODUCT);
            continue;
        }
        std::string there;
        size_t f = n;
        for (size_t j = 0; j < n; j++) {
            bool usable = out->columns[j].kind != Kind::WORDS;
            if (usable && out->columns[j].name == name)
                f = j;
            if (usable)
                add_to_list(there, out->columns[j].name);
        }
        if (f == n)
            return refuse_name("interactions", name, there, "one of", error);
        c.factors.push_back(f);
        c.name.append(c.name.empty() ? "" : ":").append(name);
    }
    return TK_OK;
}

// Names of features: a column's name, or that and the level, or another description in brackets.
// Names do not depend on which levels occur, so that groups have the same ones.

int refuse_same(const Column &a, std::string_view name, std::string *error) {
    const std::string source(a.kind == Kind::PRODUCT ? a.name : std::string(a.source_name));
    *error = "a column is called '" + std::string(name.substr(0, 200)) + "', as a feature of '" +
             source.substr(0, 200) + "' is, expected another name for one of them";
    return TK_REFUSED;
}

// Whether a feature of the column may have this suffix in its name.
bool may_have(const Column &c, std::string_view rest, const tk_preparing *how) {
    const bool levels = c.is_category() || c.kind == Kind::PRODUCT || c.kind == Kind::WORDS;
    const bool gaps = how->missing != TK_MISSING_SKIP && how->missing != TK_MISSING_ERROR;
    return (gaps && rest == "[missing]") || (c.may_be_other && rest == "[other]") ||
           (c.kind == Kind::CYCLE && (rest == "[sin]" || rest == "[cos]")) ||
           (levels && rest.starts_with("[\"")) ||
           ((c.kind == Kind::WORDS || c.kind == Kind::PRODUCT) && rest.starts_with("["));
}

// Decides the names of features so that they are distinct.
int name_features(const tk_preparing *how, Columns *out, std::string *error) {
    for (Column &c : out->columns) {
        c.may_be_other =
            c.is_category() && (is_closed(c, how) ? how->unseen == TK_UNSEEN_OTHER
                                                  : how->max_categories || how->min_count > 1);
        c.may_be_missing = how->missing != TK_MISSING_SKIP && how->missing != TK_MISSING_ERROR;
    }
    for (size_t i = 0; i < out->columns.size(); i++)
        for (size_t j = 0; j < out->columns.size(); j++) {
            Column &c = out->columns[i];
            const std::string_view other = out->columns[j].name;
            if (i == j || !other.starts_with(c.name))
                continue;
            const std::string_view rest = other.substr(c.name.size());
            // Of two columns with the same name one is a part of a date or a combination.
            if (rest.empty()) {
                const bool made = c.name != c.source_name;
                return refuse_same(made ? c : out->columns[j], other, error);
            }
            if (may_have(c, rest, how))
                return refuse_same(c, other, error);
            c.quoted |= rest.starts_with("[");
        }
    return TK_OK;
}

} // namespace

int list_columns(const tusk_group *group, const tk_preparing *how, Columns *out,
                 std::string *error) {
    for (const tusk_part *p = group->parts; p; p = p->next)
        out->parts.push_back(p);
    const tusk_schema *schema = group->parts->schema;
    if (!schema->n_columns)
        return TK_OK;
    if (int code = check_names(schema, how, error))
        return code;
    if (int code = check_marks(schema, how, error))
        return code;
    for (int32_t j = 0; j < schema->n_columns; j++) {
        bool cluster = how->cluster && !std::strcmp(schema->name[j], how->cluster);
        bool fold = how->fold && !std::strcmp(schema->name[j], how->fold);
        if (cluster)
            out->clusters.column = (size_t)j;
        if (fold)
            out->folds.column = (size_t)j;
        if (!cluster && !fold)
            add_column(out, schema, (size_t)j, how);
    }
    std::stable_partition(out->columns.begin(), out->columns.end(),
                          [](const Column &c) { return !c.absorbed; });
    if (int code = check_levels(*out, how, error))
        return code;
    if (int code = check_references(*out, how, error))
        return code;
    if (int code = add_products(how, out, error))
        return code;
    return name_features(how, out, error);
}

} // namespace tusk
