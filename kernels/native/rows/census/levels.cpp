// The levels of categories, and the number of rows of each.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "census.hpp"

namespace tusk {
namespace {

// The levels of a column in all parts, and the known keys that `keep` takes, in the order of
// `less`, each once.
template <class Keep, class Less>
std::vector<std::string_view> levels_in(const std::vector<const tusk_part *> &parts, size_t column,
                                        const ColumnCounts *known, Keep keep, Less less) {
    std::vector<std::string_view> all;
    for (const tusk_part *p : parts)
        for (uint32_t code = 0; code < p->levels[column].n; code++)
            all.push_back(level_text(p->levels[column], code));
    if (known)
        for (const auto &[key, n] : known->count)
            if (keep(key))
                all.push_back(key);
    std::sort(all.begin(), all.end(), less);
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
}

// The levels of all parts, and known ones, in order; place: index by part and code.
std::vector<std::string_view> united(const std::vector<const tusk_part *> &parts, size_t column,
                                     const ColumnCounts *known,
                                     std::vector<std::vector<int32_t>> *place) {
    const auto every = [](const std::string &) { return true; };
    std::vector<std::string_view> all =
        levels_in(parts, column, known, every, std::less<std::string_view>());
    place->assign(parts.size(), {});
    for (size_t i = 0; i < parts.size(); i++)
        for (uint32_t code = 0; code < parts[i]->levels[column].n; code++) {
            std::string_view text = level_text(parts[i]->levels[column], code);
            (*place)[i].push_back(
                (int32_t)(std::lower_bound(all.begin(), all.end(), text) - all.begin()));
        }
    return all;
}

// The distinct values of a column, without wide ids (TUSK_WIDE_ID).
struct Distinct {
    Codes place;
    std::vector<double> values;
    bool wide = false; // whether the column has such ids

    void add(double x) {
        if (std::isnan(x) || (wide && x >= TUSK_WIDE_ID) || place.at(x) != NONE)
            return;
        place.put(x, (int32_t)values.size());
        values.push_back(x);
    }
};
using AllDistinct = std::vector<Distinct>; // by column

// Whether the digits of a whole number are before those of another one.
bool is_less(std::string_view a, std::string_view b) {
    const bool below = a[0] == '-', less = a.size() != b.size() ? a.size() < b.size() : a < b;
    return below != (b[0] == '-') ? below : below ? is_less(b.substr(1), a.substr(1)) : less;
}

// The wide ids of a column in all parts, and known ones, the least first.
std::vector<std::string_view> wide_ids(const std::vector<const tusk_part *> &parts, size_t column,
                                       const ColumnCounts *known) {
    return levels_in(parts, column, known, std::not_fn(is_number_key), is_less);
}

// Makes values and wide ids the levels of a category, the least first.
void put_numbers(Column &c, Columns *out, const std::vector<double> &values,
                 const std::vector<std::string_view> &wide) {
    const auto place_of = [&](std::string_view id) {
        return (size_t)(std::lower_bound(wide.begin(), wide.end(), id, is_less) - wide.begin());
    };
    const size_t below = place_of("0");
    c.levels.assign(wide.begin(), wide.begin() + (int64_t)below);
    for (double value : values) {
        char text[TUSK_NUMBER_TEXT];
        c.code.put(value, (int32_t)c.levels.size());
        out->texts.emplace_back(text, tusk_number_text(value, text));
        c.levels.push_back(out->texts.back());
    }
    c.levels.insert(c.levels.end(), wide.begin() + (int64_t)below, wide.end());
    c.feature.assign(1, std::vector<int32_t>(c.levels.size()));
    std::iota(c.feature[0].begin(), c.feature[0].end(), 0);
    c.wide.clear();
    for (size_t i = 0; !wide.empty() && i < out->parts.size(); i++) {
        const tusk_levels &levels = out->parts[i]->levels[c.source];
        c.wide.emplace_back();
        for (uint32_t code = 0; code < levels.n; code++) {
            const size_t at = place_of(level_text(levels, code));
            c.wide.back().push_back((int32_t)(at < below ? at : at + values.size()));
        }
    }
}

// The distinct values of the wanted columns; each thread collects its segments separately.
AllDistinct distinct_in(const tusk_group *group, int64_t cancel_mark, int threads,
                        const std::vector<Column *> &wanted,
                        const std::vector<std::vector<std::string_view>> &wide) {
    std::vector<const tusk_segment *> segments;
    each_part_segment(group, [&](const tusk_segment *s, size_t) {
        segments.push_back(s);
        return (int)TK_OK;
    });
    const size_t n = segments.size(), shares = std::clamp<size_t>(n / 2, 1, (size_t)threads);
    AllDistinct none(wanted.size());
    for (size_t k = 0; k < wanted.size(); k++)
        none[k].wide = !wide[k].empty();
    std::vector<AllDistinct> all(shares, none);
    parallel_for((int64_t)shares, threads, [&](int64_t share) {
        AllDistinct &own = all[(size_t)share];
        for (size_t i = n * share / shares; i < n * (share + 1) / shares; i++) {
            if (cancelled(cancel_mark))
                return;
            each_row_of(segments[i], group->parts->schema, [&](const auto *x) {
                for (size_t k = 0; k < wanted.size(); k++)
                    own[k].add(tusk_part_of((double)x[wanted[k]->source], wanted[k]->part) +
                               0.0); // converts -0 to 0
            });
        }
    });
    for (size_t share = 1; share < shares; share++)
        for (size_t k = 0; k < wanted.size(); k++)
            for (double value : all[share][k].values)
                all[0][k].add(value);
    return std::move(all[0]);
}

// The same for the rows of all parts, from their counts.
AllDistinct known_numbers(const Columns &all, const tk_preparing *how,
                          const std::vector<Column *> &wanted) {
    AllDistinct found(wanted.size());
    for (size_t k = 0; k < wanted.size(); k++)
        for (const auto &[key, n] : known_of(how, wanted[k] - all.columns.data())->count)
            if (is_number_key(key))
                found[k].values.push_back(of_key<double>(key));
    return found;
}

// Turns the distinct values of categories that are numbers into levels, the least first.
int find_numbers(const tusk_group *group, const tk_preparing *how, int threads, Columns *out,
                 std::string *error) {
    std::vector<Column *> wanted;
    for (Column &c : out->columns)
        if (c.of_numbers)
            wanted.push_back(&c);
    if (wanted.empty())
        return TK_OK;
    std::vector<std::vector<std::string_view>> wide;
    for (const Column *c : wanted)
        wide.push_back(
            wide_ids(out->parts, c->source, known_of(how, (size_t)(c - out->columns.data()))));
    AllDistinct found = how->census ? known_numbers(*out, how, wanted)
                                    : distinct_in(group, how->cancel_mark, threads, wanted, wide);
    if (cancelled(how->cancel_mark))
        return TK_CANCELLED;
    for (size_t k = 0; k < wanted.size(); k++) {
        Column &c = *wanted[k];
        std::sort(found[k].values.begin(), found[k].values.end());
        for (double value : found[k].values)
            if (!is_name(value))
                return how->level_numbers == TK_NUMBERS_OF_NAMES
                           ? refuse_rounded_ids(c.source_name, error)
                           : refuse_rounded(c.absorbed ? "absorb" : "categories", c.source_name,
                                            error);
        put_numbers(c, out, found[k].values, wide[k]);
    }
    return TK_OK;
}

// Adds the counts of the rows of all parts.
void look_at(const ColumnCounts &known, const Column &c, Seen &seen) {
    seen.missing = known.missing;
    seen.n = known.n;
    seen.sum = known.sum;
    std::unordered_map<std::string_view, size_t> wide;
    for (size_t k = 0; !c.wide.empty() && k < c.levels.size(); k++)
        wide.emplace(c.levels[k], k);
    for (const auto &[key, n] : known.count) {
        if (!c.is_category())
            break;
        size_t place = !c.of_numbers ? (size_t)(std::lower_bound(c.levels.begin(), c.levels.end(),
                                                                 std::string_view(key)) -
                                                c.levels.begin())
                       : is_number_key(key) ? (size_t)c.code.at(of_key<double>(key))
                                            : wide.at(key);
        seen.count[place] += n;
    }
}

// Counts the rows of one segment; means: whether numbers are summed.
void look_at(const tusk_segment *s, size_t part, const tusk_schema *schema, const Columns &c,
             bool means, std::vector<Seen> &seen) {
    each_row_of(s, schema, [&](const auto *x) {
        for (size_t j = 0; j < seen.size(); j++) {
            const Column &column = c.columns[j];
            double value = x[column.source];
            if (column.kind == Kind::PRODUCT)
                continue;
            if (std::isnan(value)) {
                seen[j].missing++;
                continue;
            }
            seen[j].n++;
            if (column.is_category())
                seen[j].count[(size_t)column.code_of(value, part)]++;
            else if (means)
                seen[j].sum.add(tusk_part_of(value, column.part));
        }
    });
}

// Whether means fill gaps.
bool needs_means(const tk_preparing *how) {
    return how->missing == TK_MISSING_IMPUTE || how->missing == TK_MISSING_LEVEL;
}

} // namespace

int find_levels(const tusk_group *group, const tk_preparing *how, int threads, Columns *out,
                std::string *error) {
    const tusk_schema *schema = group->parts->schema;
    for (size_t j = 0; j < out->columns.size(); j++) {
        Column &c = out->columns[j];
        if (c.is_category() && !c.of_numbers)
            c.levels = united(out->parts, c.source, known_of(how, j), &c.feature);
    }
    for (Marks *marks :
         {how->cluster ? &out->clusters : nullptr, how->fold ? &out->folds : nullptr})
        if (marks && schema->kind[marks->column] == TUSK_CATEGORY)
            marks->levels = united(out->parts, marks->column, nullptr, &marks->of_code);
    if (schema->text_label)
        out->label.levels = united(out->parts, (size_t)schema->n_columns, known_of_label(how),
                                   &out->label.feature);
    if (out->label.levels.empty()) // all labels are NULL, for a task that has none
        out->label.feature.clear();
    return find_numbers(group, how, threads, out, error);
}

int look_at_rows(const tusk_group *group, const tk_preparing *how, int threads, const Columns &c,
                 std::vector<Seen> &seen) {
    for (size_t j = 0; j < seen.size(); j++)
        seen[j].count.assign(c.columns[j].levels.size(), 0);
    if (how->census) {
        for (size_t j = 0; j < seen.size(); j++)
            look_at(*known_of(how, j), c.columns[j], seen[j]);
        return TK_OK;
    }
    std::vector<std::pair<const tusk_segment *, size_t>> segments;
    each_part_segment(group, [&](const tusk_segment *s, size_t part) {
        segments.emplace_back(s, part);
        return (int)TK_OK;
    });
    size_t n = segments.size(), shares = std::clamp<size_t>(n / 2, 1, (size_t)threads);
    std::vector<std::vector<Seen>> all(shares, seen);
    parallel_for((int64_t)shares, threads, [&](int64_t share) {
        for (size_t i = n * share / shares; i < n * (share + 1) / shares; i++)
            if (!cancelled(how->cancel_mark))
                look_at(segments[i].first, segments[i].second, group->parts->schema, c,
                        needs_means(how), all[(size_t)share]);
    });
    seen = std::move(all[0]);
    for (size_t share = 1; share < shares; share++)
        for (size_t j = 0; j < seen.size(); j++)
            seen[j].add(all[share][j]);
    return cancelled(how->cancel_mark) ? TK_CANCELLED : TK_OK;
}

} // namespace tusk
