#include "columns.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "../shared/pool.hpp"

namespace tusk {
namespace {

constexpr size_t MOST_LEVELS = 100000;

std::string_view level_text(const tusk_levels &l, uint32_t code) {
    uint32_t begin = code ? l.end[code - 1] : 0;
    return {l.text + begin, l.end[code] - begin};
}

// The levels of all parts in order; place: by part and code.
std::vector<std::string_view> united(const std::vector<const tusk_part *> &parts, int32_t column,
                                     std::vector<std::vector<int32_t>> *place) {
    std::vector<std::string_view> all;
    for (const tusk_part *p : parts)
        for (uint32_t code = 0; code < p->levels[column].n; code++)
            all.push_back(level_text(p->levels[column], code));
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    place->assign(parts.size(), {});
    for (size_t i = 0; i < parts.size(); i++)
        for (uint32_t code = 0; code < parts[i]->levels[column].n; code++) {
            std::string_view text = level_text(parts[i]->levels[column], code);
            (*place)[i].push_back(
                (int32_t)(std::lower_bound(all.begin(), all.end(), text) - all.begin()));
        }
    return all;
}

// What a pass over the rows finds of one column.
struct Seen {
    std::vector<int64_t> count; // by level
    int64_t missing = 0, n = 0;
    double sum = 0;
};

template <class T>
void look(const tusk_segment *s, size_t part, const Columns &c, std::vector<Seen> &seen) {
    size_t d = c.columns.size();
    const T *x = (const T *)tusk_dense_values(s);
    for (uint32_t row = 0; row < s->n_rows; row++, x += d)
        for (size_t j = 0; j < d; j++) {
            if (std::isnan(x[j])) {
                seen[j].missing++;
                continue;
            }
            seen[j].n++;
            if (c.columns[j].category)
                seen[j].count[c.columns[j].feature[part][(size_t)x[j]]]++;
            else
                seen[j].sum += x[j];
        }
}

int look_at_rows(const tusk_group *group, const tk_preparing *how, const Columns &c,
                 std::vector<Seen> &seen) {
    seen.assign(c.columns.size(), {});
    for (size_t j = 0; j < seen.size(); j++)
        seen[j].count.assign(c.columns[j].levels.size(), 0);
    return each_part_segment(group, how->cancel_mark, [&](const tusk_segment *s, size_t part) {
        if (cancelled(how->cancel_mark))
            return (int)TK_CANCELLED;
        if (group->parts->schema->f64)
            look<double>(s, part, c, seen);
        else
            look<float>(s, part, c, seen);
        return (int)TK_OK;
    });
}

// Which levels stay: frequent ones, and of these the most frequent.
std::vector<bool> kept_levels(const Seen &seen, const tk_preparing *how) {
    std::vector<bool> kept(seen.count.size());
    std::vector<size_t> order;
    for (size_t k = 0; k < kept.size(); k++)
        if (seen.count[k] >= how->min_count)
            order.push_back(k);
    if (how->max_categories && order.size() > (size_t)how->max_categories) {
        std::stable_sort(order.begin(), order.end(),
                         [&](size_t a, size_t b) { return seen.count[a] > seen.count[b]; });
        order.resize((size_t)how->max_categories);
    }
    for (size_t k : order)
        kept[k] = true;
    return kept;
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
            k = moved[k];
    return rare;
}

void fill_gaps(Column &c, const Seen &seen) {
    c.n_missing = seen.missing;
    c.fill = seen.n ? seen.sum / (double)seen.n : 0;
}

// The most frequent level that stays.
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

// Gives a category its features. `feature`, by part and code, holds places in levels until then.
void place_category(Column &c, bool rare, bool all, const tk_preparing *how, int32_t *next) {
    bool gaps = c.n_missing > 0;
    bool own_level = gaps && how->missing == TK_MISSING_LEVEL;
    c.reference = !all && !c.levels.empty() && (c.levels.size() > 1 || rare || own_level);
    c.first = *next;
    *next += (int32_t)c.levels.size() - c.reference;
    if (rare)
        c.other = (*next)++;
    if (own_level)
        c.missing = (*next)++;
    if (gaps && how->missing == TK_MISSING_IMPUTE)
        c.indicator = (*next)++;
    for (auto &part : c.feature)
        for (int32_t &k : part)
            k = k == NONE ? c.other : c.feature_of_level(k);
}

void place_number(Column &c, int32_t *next) {
    c.first = (*next)++;
    if (c.n_missing)
        c.indicator = (*next)++;
}

int refuse_levels(const Column &c, std::string *error) {
    *error = "column '" + std::string(c.name.substr(0, 200)) + "' has " +
             std::to_string(c.levels.size()) + " distinct values in a group, at most " +
             std::to_string(MOST_LEVELS) +
             " are allowed: give option 'max_categories' or 'min_count', or leave it out";
    return TK_REFUSED;
}

int refuse_gaps(const Column &c, int64_t n, std::string *error) {
    *error = "column '" + std::string(c.name.substr(0, 200)) + "' is NULL in " +
             std::to_string(n) + " rows of a group, expected none as option 'missing' is 'error'";
    return TK_REFUSED;
}

std::string quoted(std::string_view text) {
    std::string out(1, '\'');
    return out.append(text.substr(0, 200)).append(1, '\'');
}

// Gives the labels the numbers of the classes that the caller names.
int name_classes(const tk_preparing *how, Column &label, std::string *error) {
    std::vector<std::string_view> names;
    const char *at = how->classes;
    for (int64_t k = 0; k < how->n_classes; k++, at += names.back().size() + 1)
        names.push_back(at);
    std::vector<int32_t> number;
    for (std::string_view level : label.levels) {
        size_t k = std::find(names.begin(), names.end(), level) - names.begin();
        if (k == names.size()) {
            *error = "label is " + quoted(level) + ", expected " + quoted(names[0]) + " or " +
                     quoted(names.back()) + " as the options have";
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

void find_parts(const tusk_group *group, Columns *out) {
    for (const tusk_part *p = group->parts; p; p = p->next)
        out->parts.push_back(p);
    const tusk_schema *schema = group->parts->schema;
    out->columns.resize((size_t)schema->n_columns);
    for (int32_t j = 0; j < schema->n_columns; j++) {
        Column &c = out->columns[j];
        c.name = schema->name[j];
        c.category = schema->kind[j] == TUSK_CATEGORY;
        if (c.category)
            c.levels = united(out->parts, j, &c.feature);
    }
    if (schema->text_label)
        out->label.levels = united(out->parts, schema->n_columns, &out->label.feature);
}

} // namespace

int decide_columns(const tusk_group *group, const tk_preparing *how, Columns *out,
                   std::string *error) {
    find_parts(group, out);
    if (how->n_classes && !out->label.levels.empty())
        if (int code = name_classes(how, out->label, error))
            return code;
    bool look = how->missing != TK_MISSING_SKIP || how->min_count > 1;
    for (const Column &c : out->columns)
        look |= how->max_categories && c.levels.size() > (size_t)how->max_categories;
    std::vector<Seen> seen(out->columns.size());
    if (look)
        if (int code = look_at_rows(group, how, *out, seen))
            return code;
    int32_t next = 0;
    bool all = how->levels != TK_BUT_REFERENCE;
    for (size_t j = 0; j < out->columns.size(); j++) {
        Column &c = out->columns[j];
        if (seen[j].missing && how->missing == TK_MISSING_ERROR)
            return refuse_gaps(c, seen[j].missing, error);
        if (look)
            fill_gaps(c, seen[j]);
        if (!c.category) {
            place_number(c, &next);
        } else {
            bool rare = false;
            if (look) {
                std::vector<bool> kept = kept_levels(seen[j], how);
                rare = drop_rare(c, kept);
                c.fill_level = usual_level(c, seen[j], kept);
            }
            if (c.levels.size() > MOST_LEVELS)
                return refuse_levels(c, error);
            place_category(c, rare, all, how, &next);
            all = how->levels == TK_ALL_LEVELS;
        }
        out->entries += 1 + (c.indicator != NONE);
    }
    out->n_features = next;
    return TK_OK;
}

// --- text ---

namespace {

void add_json_text(std::string &out, std::string_view text) {
    out += '"';
    for (char c : text) {
        char escaped[8];
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if ((unsigned char)c < 0x20) {
            std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
            out += escaped;
        } else {
            out += c;
        }
    }
    out += '"';
}

void add_number(std::string &out, double x) {
    char text[32];
    std::snprintf(text, sizeof text, "%.17g", x);
    out += text;
}

void add_name(std::string &out, const Column &c, std::string_view level) {
    out.append(c.name).append("[").append(level).append("]");
    out += '\0';
}

void add_category(std::string &out, const Column &c) {
    out += ",\"levels\":[";
    for (size_t k = 0; k < c.levels.size(); k++) {
        if (k)
            out += ',';
        add_json_text(out, c.levels[k]);
    }
    out += ']';
    if (c.reference)
        out += ",\"reference\":true";
    if (c.other != NONE)
        out += ",\"other\":true";
    if (c.missing != NONE)
        out += ",\"missing\":true";
    if (c.fill_level != NONE) {
        out += ",\"fill\":";
        add_json_text(out, c.levels[c.fill_level]);
    }
}

} // namespace

std::string names_of(const Columns &columns) {
    std::string out;
    for (const Column &c : columns.columns) {
        if (!c.category)
            out.append(c.name) += '\0';
        for (size_t k = c.reference; k < c.levels.size(); k++)
            add_name(out, c, c.levels[k]);
        if (c.other != NONE)
            add_name(out, c, "other");
        if (c.missing != NONE || c.indicator != NONE)
            add_name(out, c, "missing");
    }
    return out;
}

std::string json_of(const Columns &columns, const tk_preparing *how) {
    static const char *const MISSING[] = {"skip", "impute", "level", "error"};
    std::string out = "{\"version\":1,\"missing\":\"";
    out.append(MISSING[how->missing]).append("\",\"unseen\":\"");
    out.append(how->refuse_unseen ? "error" : "other").append("\",\"columns\":[");
    for (size_t j = 0; j < columns.columns.size(); j++) {
        const Column &c = columns.columns[j];
        out.append(j ? ",{\"name\":" : "{\"name\":");
        add_json_text(out, c.name);
        out.append(c.category ? ",\"kind\":\"category\"" : ",\"kind\":\"number\"");
        if (c.category) {
            add_category(out, c);
        } else if (how->missing == TK_MISSING_IMPUTE || how->missing == TK_MISSING_LEVEL) {
            out += ",\"fill\":";
            add_number(out, c.fill);
        }
        out.append(c.indicator != NONE ? ",\"indicator\":true}" : "}");
    }
    return out += "]}";
}

} // namespace tusk
