// Histograms of the features of groups as JSON: for each number at most 19 of its quantiles, the
// edges, with the rows at each of them (ties) and those above the edge before, up to it (counts,
// the last one above all edges); for each category the rows of its levels, and of all others; and
// the rows with NULL.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "../shared/pool.hpp"
#include "columns.hpp"

struct tk_histograms {
    std::vector<std::string> json; // by group
};

namespace tusk {
namespace {

constexpr int64_t BINS = 20;
constexpr size_t LEVELS_KEPT = 1000; // the most frequent of a category
constexpr double ROUNDING = 1e-9;    // of sums of weights

using Names = std::vector<std::string_view>;
using Weights = std::map<std::string_view, double>; // by level

Names names_in(const char *text, int64_t n) {
    Names found;
    for (; n--; text += found.back().size() + 1)
        found.emplace_back(text);
    return found;
}

bool is_among(const Names &names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

// The caller's names of columns and features.
struct Wanted {
    int64_t mark;
    bool skips;
    Names categories, words, apart, features;

    explicit Wanted(const tk_histogram_of *how)
        : mark(how->cancel_mark), skips(how->skips),
          categories(names_in(how->categories, how->n_categories)),
          words(names_in(how->words, how->n_words)), apart(names_in(how->apart, how->n_apart)),
          features(names_in(how->features, how->n_features)) {}
};

// Calls body(value, weight, part) for each row of a column.
template <class Body>
int each_value(const tusk_group *group, int32_t column, int64_t mark, Body &&body) {
    const tusk_shape shape = tusk_shape_of(group);
    return each_part_segment(group, [&](const tusk_segment *s, size_t part) {
        if (cancelled(mark))
            return (int)TK_CANCELLED;
        const double *weight = tusk_extra(s, shape, TUSK_WEIGHTS);
        auto rows = [&](const auto *x) {
            for (uint32_t row = 0; row < s->n_rows; row++)
                body((double)x[(size_t)row * group->dim + column], weight ? weight[row] : 1.0,
                     part);
        };
        tusk_value_size(group->kind) == sizeof(double) ? rows((const double *)tusk_dense_values(s))
                                                       : rows((const float *)tusk_dense_values(s));
        return (int)TK_OK;
    });
}

// --- JSON ---

void add_number(std::string &out, double x) {
    char text[32];
    for (int digits = 15; digits <= 17; digits++) {
        std::snprintf(text, sizeof text, "%.*g", digits, x);
        if (std::strtod(text, nullptr) == x)
            break;
    }
    out += text;
}

void add_numbers(std::string &out, const char *name, const std::vector<double> &numbers) {
    out.append(",\"").append(name).append("\":[");
    for (size_t i = 0; i < numbers.size(); i++) {
        out.append(i ? "," : "");
        add_number(out, numbers[i]);
    }
    out += ']';
}

std::string opened(std::string_view name, double nulls) {
    std::string out = "{\"name\":";
    add_json_text(out, name);
    out += ",\"nulls\":";
    add_number(out, nulls);
    return out;
}

// --- numbers ---

struct Weighted {
    double value, weight;
    bool operator<(const Weighted &other) const {
        return value < other.value || (value == other.value && weight < other.weight);
    }
};

// Finds the quantiles low .. high - 1 of n values, of which rows[0 .. size) are those from number
// `first` on in rising order: the k-th is the least value that k in BINS of the rows do not
// exceed.
void select(Weighted *rows, int64_t first, int64_t size, int64_t low, int64_t high, int64_t n,
            std::vector<double> &edges) {
    if (low >= high)
        return;
    const int64_t k = low + (high - low) / 2, at = (k * n + BINS - 1) / BINS - 1 - first;
    std::nth_element(rows, rows + at, rows + size,
                     [](const Weighted &a, const Weighted &b) { return a.value < b.value; });
    edges[(size_t)k - 1] = rows[at].value;
    select(rows, first, at + 1, low, k, n, edges);
    select(rows + at, first + at, size - at, k + 1, high, n, edges);
}

// The same for rows with weights, which are sorted.
void weigh(const std::vector<Weighted> &rows, std::vector<double> &edges) {
    double all = 0, sum = 0;
    for (const Weighted &row : rows)
        all += row.weight;
    size_t k = 0;
    for (const Weighted &row : rows) {
        sum += row.weight;
        while (k < edges.size() && sum >= all * ((double)(k + 1) / BINS - ROUNDING))
            edges[k++] = row.value;
    }
}

int number_column(const tusk_group *group, int32_t column, std::string_view name, int64_t mark,
                  std::string *out) {
    std::vector<Weighted> rows;
    rows.reserve((size_t)group->n_rows);
    double nulls = 0;
    if (int code = each_value(group, column, mark, [&](double x, double weight, size_t) {
            if (std::isnan(x))
                nulls += weight;
            else
                rows.push_back({x + 0.0, weight}); // converts -0 to 0
        }))
        return code;
    std::vector<double> edges(rows.empty() ? 0 : BINS - 1);
    if (group->extras & TUSK_WEIGHTS) {
        std::sort(rows.begin(), rows.end());
        weigh(rows, edges);
    } else {
        const int64_t n = (int64_t)rows.size();
        select(rows.data(), 0, n, 1, (int64_t)edges.size() + 1, n, edges);
    }
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    std::vector<double> ties(edges.size()), counts(edges.size() + 1);
    for (const Weighted &row : rows) {
        const size_t bin =
            (size_t)(std::lower_bound(edges.begin(), edges.end(), row.value) - edges.begin());
        counts[bin] += row.weight;
        if (bin < edges.size() && edges[bin] == row.value)
            ties[bin] += row.weight;
    }
    *out = opened(name, nulls);
    add_numbers(*out, "edges", edges);
    add_numbers(*out, "ties", ties);
    add_numbers(*out, "counts", counts);
    return TK_OK;
}

// --- categories ---

// Keeps the most frequent levels; of equally frequent ones the first by name. Returns the weight
// of the others.
double drop_rare(Weights &levels) {
    if (levels.size() <= LEVELS_KEPT)
        return 0;
    std::vector<double> weights;
    for (const auto &[level, weight] : levels)
        weights.push_back(weight);
    std::nth_element(weights.begin(), weights.begin() + (LEVELS_KEPT - 1), weights.end(),
                     std::greater<>());
    const double least = weights[LEVELS_KEPT - 1];
    size_t ties = LEVELS_KEPT;
    for (const auto &[level, weight] : levels)
        ties -= weight > least;
    double others = 0;
    for (auto at = levels.begin(); at != levels.end();) {
        if (at->second > least || (at->second == least && ties && ties--)) {
            ++at;
            continue;
        }
        others += at->second;
        at = levels.erase(at);
    }
    return others;
}

void write_category(std::string_view name, double nulls, Weights &levels, std::string *out) {
    const double others = drop_rare(levels);
    std::vector<double> counts;
    *out = opened(name, nulls) + ",\"levels\":[";
    for (const auto &[level, weight] : levels) {
        out->append(counts.empty() ? "" : ",");
        add_json_text(*out, level);
        counts.push_back(weight);
    }
    *out += ']';
    counts.push_back(others);
    add_numbers(*out, "counts", counts);
}

// The parts of a group, in order.
std::vector<const tusk_part *> parts_of(const tusk_group *group) {
    std::vector<const tusk_part *> parts;
    for (const tusk_part *p = group->parts; p; p = p->next)
        parts.push_back(p);
    return parts;
}

int text_column(const tusk_group *group, int32_t column, std::string_view name, bool words,
                int64_t mark, std::string *out) {
    const auto parts = parts_of(group);
    std::vector<std::vector<double>> seen;
    for (const tusk_part *p : parts)
        seen.emplace_back(p->levels[column].n);
    double nulls = 0;
    if (int code = each_value(group, column, mark, [&](double x, double weight, size_t part) {
            (std::isnan(x) ? nulls : seen[part][(size_t)x]) += weight;
        }))
        return code;
    if (words) {
        *out = opened(name, nulls);
        return TK_OK;
    }
    Weights levels;
    for (size_t p = 0; p < parts.size(); p++)
        for (uint32_t code = 0; code < parts[p]->levels[column].n; code++)
            if (seen[p][code] > 0)
                levels[level_text(parts[p]->levels[column], code)] += seen[p][code];
    write_category(name, nulls, levels, out);
    return TK_OK;
}

// A category whose levels are numbers.
int numbered_column(const tusk_group *group, int32_t column, std::string_view name, int64_t mark,
                    std::string *out) {
    std::map<double, double> seen;
    double nulls = 0;
    if (int code = each_value(group, column, mark, [&](double x, double weight, size_t) {
            (std::isnan(x) ? nulls : seen[x + 0.0]) += weight;
        }))
        return code;
    std::deque<std::string> texts;
    Weights levels;
    for (const auto &[value, weight] : seen) {
        char text[TUSK_NUMBER_TEXT];
        texts.emplace_back(text, tusk_number_text(value, text));
        levels[texts.back()] = weight;
    }
    write_category(name, nulls, levels, out);
    return TK_OK;
}

// --- groups ---

// The name of a feature of lists, as model_summary has it.
std::string feature_name(const Wanted &wanted, int32_t column) {
    return (size_t)column < wanted.features.size()
               ? std::string(wanted.features[column])
               : std::string(1, 'x').append(std::to_string(column + 1));
}

int describe_column(const tusk_group *group, int32_t column, const Wanted &wanted,
                    std::string *out) {
    if (!group->parts || !group->parts->schema->n_columns)
        return number_column(group, column, feature_name(wanted, column), wanted.mark, out);
    const tusk_schema *schema = group->parts->schema;
    const std::string_view name = schema->name[column];
    if (is_among(wanted.apart, name))
        return TK_OK;
    if (schema->kind[column] == TUSK_CATEGORY)
        return text_column(group, column, name, is_among(wanted.words, name), wanted.mark, out);
    if (is_among(wanted.categories, name))
        return numbered_column(group, column, name, wanted.mark, out);
    return number_column(group, column, name, wanted.mark, out);
}

// The weight of all rows; each row that was left out has the mean weight of the others.
double weight_of(const tusk_group *group) {
    double sum = 0;
    for (const tusk_segment *s = group->head; s; s = s->next) {
        const double *weight = tusk_extra(s, tusk_shape_of(group), TUSK_WEIGHTS);
        for (uint32_t row = 0; weight && row < s->n_rows; row++)
            sum += weight[row];
    }
    const double n = (double)group->n_rows;
    const double mean = group->extras & TUSK_WEIGHTS && n > 0 ? sum / n : 1;
    return mean * (n + (double)group->n_skipped);
}

int describe_group(const tusk_group *group, const Wanted &wanted, int threads, std::string *out) {
    std::vector<std::string> columns((size_t)group->dim);
    std::vector<int> codes((size_t)group->dim);
    parallel_for(group->dim, threads, [&](int64_t column) {
        codes[(size_t)column] =
            describe_column(group, (int32_t)column, wanted, &columns[(size_t)column]);
    });
    for (int code : codes)
        if (code)
            return code;
    const bool by_name = group->parts && group->parts->schema->n_columns;
    out->append("{\"version\":1,\"named\":").append(by_name ? "true" : "false");
    out->append(",\"skips\":").append(wanted.skips ? "true" : "false").append(",\"rows\":");
    add_number(*out, weight_of(group));
    out->append(",\"columns\":[");
    bool first = true;
    for (const std::string &column : columns) {
        if (column.empty())
            continue;
        out->append(first ? "" : ",").append(column).append("}");
        first = false;
    }
    *out += "]}";
    return TK_OK;
}

} // namespace
} // namespace tusk

int tk_histogram(const tusk_group *groups, int64_t n, const tk_histogram_of *how,
                 tk_histograms **out) {
    using namespace tusk;
    *out = nullptr;
    return code_of([&] {
        const Wanted wanted(how);
        *out = new tk_histograms{std::vector<std::string>((size_t)n)};
        std::vector<int> codes((size_t)n);
        const bool many = n >= 2 * how->threads;
        parallel_for(n, many ? how->threads : 1, [&](int64_t g) {
            codes[(size_t)g] = describe_group(groups + g, wanted, many ? 1 : how->threads,
                                              &(*out)->json[(size_t)g]);
        });
        for (int code : codes)
            if (code)
                return code;
        return (int)TK_OK;
    });
}

int64_t tk_histogram_text(const tk_histograms *found, int64_t group, const char **text) {
    *text = found->json[(size_t)group].data();
    return (int64_t)found->json[(size_t)group].size();
}

void tk_histogram_free(tk_histograms *found) {
    delete found;
}
