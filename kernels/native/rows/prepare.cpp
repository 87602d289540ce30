// Expands rows with names into the dense or sparse rows that all other kernels read.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>

#include "../shared/pool.hpp"
#include "columns.hpp"
#include "row_hash.hpp"

struct tk_prepared {
    std::vector<std::string> names, json, classes, levels, marks, unlike; // by group
    std::vector<std::vector<int32_t>> categories; // first features and numbers of features
};

namespace tusk {
namespace {

constexpr int32_t DENSE_WIDTH = 32; // up to this width rows are dense
constexpr int32_t DENSE_SHARE = 4;  // and up to this ratio of features to entries

// Parameters shared by all rows of one segment.
struct Expansion {
    const Columns &columns;
    const tusk_segment *from;
    tusk_segment *to;
    size_t part;
    bool sparse;
    tusk_shape shape; // shape of the expanded rows
    int32_t width;    // columns of the rows
    bool hashes;      // whether their TUSK_FOLDS are hashes of the original rows
};

// Features of plain values of columns: a number is its feature's value, and a small whole number
// of a category has one feature, with value 1, or the number of its level.
class PlainValues {
public:
    PlainValues(const Column &c, size_t part)
        : first_(c.first), number_(c.kind == Kind::NUMBER), level_(c.kind == Kind::LEVELS) {
        if (c.is_category() && !c.of_numbers)
            features_ = c.feature[part];
        else if (c.is_category() && c.part == TUSK_WHOLE)
            for (int32_t code : c.code.small)
                features_.push_back(code == NONE ? UNKNOWN : c.feature[0][(size_t)code]);
        plain_ = (number_ && c.part == TUSK_WHOLE) || !features_.empty();
    }
    // Returns whether the value is plain; if so, put(feature, value) has been called if it has a
    // feature.
    template <class T, class Put> bool read(T x, Put put) const {
        if (!plain_)
            return false;
        if (number_) {
            if (std::isnan(x))
                return false;
            put(first_, x);
            return true;
        }
        if (!(x >= 0 && x < (T)features_.size()) || x != (T)(int32_t)x)
            return false;
        const int32_t feature = features_[(size_t)(int32_t)x];
        if (feature == UNKNOWN)
            return false;
        if (level_)
            put(first_, feature == NONE ? std::numeric_limits<T>::quiet_NaN() : (T)feature);
        else if (feature != NONE)
            put(feature, (T)1);
        return true;
    }

private:
    static constexpr int32_t UNKNOWN = NONE - 1;
    int32_t first_;
    bool number_, level_, plain_;
    std::vector<int32_t> features_; // by value; for a level its number
};

// Expands the rows of one segment.
template <class T> class Expander {
    const Columns &all;
    size_t part;
    bool multiplied = false;        // whether products need the entries of all columns
    std::vector<Entries> at;        // of the row, by column
    std::vector<PlainValues> plain; // by column

public:
    Expander(const Expansion &e) : all(e.columns), part(e.part), at(e.columns.columns.size()) {
        for (const Column &c : all.columns) {
            multiplied |= c.kind == Kind::PRODUCT;
            plain.emplace_back(c, part);
        }
    }

    // Calls put(feature, value) for the nonzero features of one row, in rising order.
    template <class Put> void each_entry(const T *x, Put put) {
        for (size_t j = 0; j < at.size(); j++)
            if (multiplied || !plain[j].read(x[all.columns[j].source], put))
                put_column(all.columns[j], x, at[j], put);
    }

private:
    template <class Put> void put_column(const Column &c, const T *x, Entries &entries, Put put) {
        if (c.kind == Kind::PRODUCT)
            return put_product(c, put);
        T value = x[c.source];
        if (c.kind == Kind::WORDS) {
            if (!std::isnan(value))
                for (auto [feature, count] : c.words[part][(size_t)value])
                    put(feature, (T)count);
        } else {
            entries = c.entries_of((double)value, part);
            for (int i = 0; i < entries.n; i++)
                put(entries.feature[i], (T)entries.value[i]);
        }
        if (c.indicator != NONE && std::isnan(value))
            put(c.indicator, (T)1);
    }
    template <class Put> void put_product(const Column &c, Put put) {
        each_combination(all, c, at.data(), [&](uint64_t key, double value) {
            if (auto found = c.product.find(key); found != c.product.end())
                put(found->second, (T)value);
        });
    }
};

template <class T> void expand_dense(const Expansion &e) {
    size_t d = (size_t)e.width, width = (size_t)e.columns.n_features;
    const T *x = (const T *)tusk_dense_values(e.from);
    T *out = (T *)tusk_dense_values(e.to);
    Expander<T> expander(e);
    std::memset(out, 0, e.from->n_rows * width * sizeof(T));
    for (uint32_t row = 0; row < e.from->n_rows; row++, x += d, out += width)
        expander.each_entry(x, [&](int32_t feature, T value) { out[feature] = value; });
}

template <class T> void expand_sparse(const Expansion &e) {
    size_t d = (size_t)e.width;
    const T *x = (const T *)tusk_dense_values(e.from);
    uint32_t *start = tusk_row_starts(e.to), n = 0;
    int32_t *index = tusk_indices(e.to);
    T *values = (T *)tusk_sparse_values(e.to);
    Expander<T> expander(e);
    for (uint32_t row = 0; row < e.from->n_rows; row++, x += d) {
        expander.each_entry(x, [&](int32_t feature, T value) {
            index[n] = feature;
            values[n++] = value;
        });
        start[row + 1] = n;
    }
    e.to->nnz = n;
}

// Upper bound of the number of entries in the rows of a segment.
uint64_t entries_in(const Columns &columns, const tusk_segment *s, size_t part, size_t d,
                    bool f64) {
    uint64_t n = (uint64_t)s->n_rows * (uint64_t)columns.entries;
    for (const Column &c : columns.columns) {
        if (c.kind != Kind::WORDS)
            continue;
        for (uint32_t row = 0; row < s->n_rows; row++) {
            size_t at = row * d + c.source;
            double code = f64 ? ((const double *)tusk_dense_values(s))[at]
                              : ((const float *)tusk_dense_values(s))[at];
            n += std::isnan(code) ? 0 : c.words[part][(size_t)code].size();
        }
    }
    return n;
}

// Rows that are lists stay as they are.
void copy_rows(const Expansion &e, const tusk_group *group) {
    if (!e.sparse) {
        std::memcpy(tusk_dense_values(e.to), tusk_dense_values(e.from),
                    e.from->n_rows * (size_t)group->dim * tusk_value_size(group->kind));
        return;
    }
    e.to->nnz = e.from->nnz;
    std::memcpy(tusk_row_starts(e.to), tusk_row_starts(e.from), (e.from->n_rows + 1) * 4);
    std::memcpy(tusk_indices(e.to), tusk_indices(e.from), e.from->nnz * 4);
    std::memcpy(tusk_sparse_values(e.to), tusk_sparse_values(e.from),
                e.from->nnz * tusk_value_size(group->kind));
}

void copy_labels(const Expansion &e) {
    const double *y = tusk_labels(e.from);
    double *out = tusk_labels(e.to);
    if (e.columns.label.feature.empty()) {
        std::memcpy(out, y, e.from->n_rows * sizeof *y);
        return;
    }
    const auto &rank = e.columns.label.feature[e.part];
    for (uint32_t row = 0; row < e.from->n_rows; row++)
        out[row] = rank[(size_t)y[row]];
}

// Copies the values of a column of marks; for text their indices among all levels of the group.
template <class T> void copy_marks(const Expansion &e, const Marks &marks, enum tusk_extra which) {
    double *out = tusk_extra(e.to, e.shape, which);
    const T *x = (const T *)tusk_dense_values(e.from) + marks.column;
    const auto &codes = marks.of_code;
    for (uint32_t row = 0; out && row < e.from->n_rows; row++, x += e.width)
        // converts -0 to 0
        out[row] = codes.empty() ? (double)*x + 0.0 : codes[e.part][(size_t)*x];
}

template <class T> void copy_all_marks(const Expansion &e) {
    copy_marks<T>(e, e.columns.clusters, TUSK_CLUSTERS);
    if (!e.hashes)
        copy_marks<T>(e, e.columns.folds, TUSK_FOLDS);
}

// Sums of the hashes of the values of rows with names, whose categories and wide ids are codes of
// texts.
template <class T> class NamedHashes {
public:
    NamedHashes(const tusk_part &part, size_t width) : part_(part), width_(width) {
        for (size_t j = 0; j < width; j++) {
            texts_.emplace_back();
            const tusk_levels &levels = part.levels[j];
            for (uint32_t k = 0; k < levels.n; k++) {
                uint32_t begin = k ? levels.end[k - 1] : 0;
                texts_[j].push_back(hash_of_text(j, levels.text + begin, levels.end[k] - begin));
            }
        }
    }

    uint64_t sum(const T *x) const {
        uint64_t sum = 0;
        for (size_t j = 0; j < width_; j++)
            sum += hash_of(j, (double)x[j]);
        return sum;
    }

private:
    uint64_t hash_of(size_t j, double x) const {
        const bool category = part_.schema->kind[j] == TUSK_CATEGORY;
        if (std::isnan(x) || texts_[j].empty() || (!category && x < TUSK_WIDE_ID))
            return hash_of_number(j, x);
        return texts_[j][category ? (size_t)x : tusk_code_of_wide(x)];
    }

    const tusk_part &part_;
    size_t width_;
    std::vector<std::vector<uint64_t>> texts_; // by column and code
};

// Writes hashes of the original rows.
template <class T> void write_named_hashes(const Expansion &e, const tusk_group *group) {
    const tusk_part &part = *e.columns.parts[e.part];
    const size_t width = (size_t)part.schema->n_columns; // 0: features are a list
    NamedHashes<T> named(part, width);
    double *out = tusk_extra(e.to, e.shape, TUSK_FOLDS);
    const T *x = width ? (const T *)tusk_dense_values(e.from) : nullptr;
    for (uint32_t row = 0; row < e.from->n_rows; row++) {
        uint64_t hash =
            hash_of_sum(width ? named.sum(x + row * width) : sum_of_row(*group, e.from, row));
        std::memcpy(out + row, &hash, sizeof hash);
    }
}

void expand(const Expansion &e, const tusk_group *group) {
    bool f64 = group->parts->schema->f64;
    e.to->n_rows = e.from->n_rows;
    copy_labels(e);
    tusk_copy_extras(e.to, e.shape, 0, e.from, tusk_shape_of(group), 0, e.from->n_rows);
    f64 ? copy_all_marks<double>(e) : copy_all_marks<float>(e);
    if (e.hashes)
        f64 ? write_named_hashes<double>(e, group) : write_named_hashes<float>(e, group);
    if (e.columns.columns.empty())
        copy_rows(e, group);
    else if (e.sparse)
        f64 ? expand_sparse<double>(e) : expand_sparse<float>(e);
    else
        f64 ? expand_dense<double>(e) : expand_dense<float>(e);
}

void shape(const tusk_group *group, const tk_preparing *how, const Columns &columns,
           tusk_group *out) {
    *out = *group;
    out->head = nullptr;
    out->parts = nullptr;
    out->extras |= how->hashes ? TUSK_FOLDS : 0;
    if (columns.columns.empty())
        return;
    out->extras |= (how->cluster ? TUSK_CLUSTERS : 0) | (how->fold ? TUSK_FOLDS : 0);
    bool f64 = group->parts->schema->f64;
    bool dense = how->dense || columns.n_features <= DENSE_WIDTH ||
                 (!columns.wordy && columns.n_features <= DENSE_SHARE * columns.entries);
    out->dim = columns.n_features;
    out->kind = dense ? (f64 ? TUSK_DENSE_F64 : TUSK_DENSE_F32)
                      : (f64 ? TUSK_SPARSE_F64 : TUSK_SPARSE_F32);
}

int expand_group(const tusk_group *group, const tk_preparing *how, tusk_memory *memory,
                 const Columns &columns, int threads, tusk_group *out) {
    std::vector<Expansion> all;
    bool sparse = tusk_is_sparse(out->kind), listed = columns.columns.empty();
    const tusk_schema *schema = group->parts->schema;
    int32_t width = schema->n_columns;
    tusk_segment **link = const_cast<tusk_segment **>(&out->head);
    auto begin = [&](const tusk_segment *s, size_t part) -> int {
        uint64_t entries = !sparse  ? 0
                           : listed ? s->nnz
                                    : entries_in(columns, s, part, (size_t)width, schema->f64);
        int failed = TUSK_OK;
        if (entries > UINT32_MAX)
            return TK_NO_MEMORY;
        tusk_segment *to =
            tusk_segment_new(memory, tusk_shape_of(out), s->n_rows, (uint32_t)entries, &failed);
        if (!to)
            return failed == TUSK_DISK_FULL ? TK_DISK_FULL : TK_NO_MEMORY;
        *link = to;
        link = &to->next;
        bool hashes = how->hashes && !(how->fold && !listed);
        all.push_back({columns, s, to, part, sparse, tusk_shape_of(out), width, hashes});
        return TK_OK;
    };
    int code = each_part_segment(group, begin);
    if (code)
        return code;
    parallel_for((int64_t)all.size(), threads, [&](int64_t i) {
        if (!cancelled(how->cancel_mark))
            expand(all[i], group);
    });
    return cancelled(how->cancel_mark) ? TK_CANCELLED : TK_OK;
}

std::vector<int32_t> categories_of(const Columns &columns) {
    std::vector<int32_t> found;
    for (const Column &c : columns.columns)
        if (c.is_category())
            found.insert(found.end(), {c.first, c.width});
    return found;
}

std::string classes_of(const Columns &columns) {
    std::string out;
    for (std::string_view level : columns.label.levels)
        out.append(level) += '\0';
    return out;
}

std::string marks_of(const tusk_schema *schema, const Marks &marks) {
    int kind = schema->kind[marks.column];
    std::string out = kind == TUSK_CATEGORY    ? "text"
                      : kind == TUSK_DATE      ? "date"
                      : kind == TUSK_TIMESTAMP ? "timestamp"
                                               : "number";
    out += '\0';
    for (std::string_view level : marks.levels)
        out.append(level) += '\0';
    return out;
}

// Inputs shared by all groups, and destinations of the results.
struct Batch {
    const tusk_group *groups;
    const tk_preparing *how;
    tusk_memory *memory;
    tusk_group *out;
    tk_prepared *texts;
};

int prepare_group(const Batch &b, int64_t g, int threads, std::string *error) {
    Columns columns;
    if (int code = decide_columns(b.groups + g, b.how, threads, &columns, error))
        return code;
    shape(b.groups + g, b.how, columns, b.out + g);
    if (!columns.columns.empty()) {
        b.texts->names[g] = names_of(columns);
        b.texts->json[g] = json_of(columns, b.how);
        b.texts->categories[g] = categories_of(columns);
        b.texts->levels[g] = levels_of(columns);
    }
    b.texts->classes[g] = classes_of(columns);
    b.texts->unlike[g] = unlike_of(columns);
    if (b.how->fold && !columns.columns.empty())
        b.texts->marks[g] = marks_of(b.groups[g].parts->schema, columns.folds);
    return expand_group(b.groups + g, b.how, b.memory, columns, threads, b.out + g);
}

// The first group that fails decides, so that the error does not depend on the threads.
struct Failure {
    std::mutex lock;
    int64_t group = INT64_MAX;
    int code = TK_OK;
    std::string error;

    void note(int64_t g, int why, std::string &&text) {
        std::lock_guard<std::mutex> held(lock);
        if (g >= group)
            return;
        group = g;
        code = why;
        error = std::move(text);
    }
};

int prepare(const Batch &b, int64_t n, std::string *error) {
    b.texts->names.resize(n);
    b.texts->json.resize(n);
    b.texts->categories.resize(n);
    b.texts->classes.resize(n);
    b.texts->levels.resize(n);
    b.texts->marks.resize(n);
    b.texts->unlike.resize(n);
    Failure failure;
    int threads = b.how->threads;
    bool many = n >= 2 * threads;
    parallel_for(n, many ? threads : 1, [&](int64_t g) {
        std::string why;
        int code = cancelled(b.how->cancel_mark) ? (int)TK_CANCELLED
                                                 : prepare_group(b, g, many ? 1 : threads, &why);
        if (code)
            failure.note(g, code, std::move(why));
    });
    *error = failure.error;
    return failure.code;
}

} // namespace
} // namespace tusk

int tk_prepare(const tusk_group *groups, int64_t n, const tk_preparing *how, tusk_memory *memory,
               tusk_group *out, tk_prepared **texts, char *error) {
    using namespace tusk;
    std::memset(out, 0, (size_t)n * sizeof *out);
    *error = 0;
    *texts = nullptr;
    int code = code_of([&] {
        *texts = new tk_prepared;
        std::string why;
        int failed = prepare({groups, how, memory, out, *texts}, n, &why);
        std::snprintf(error, TK_PREPARE_ERROR, "%s", why.c_str());
        return failed;
    });
    if (code) {
        tk_free_groups(out, n);
        tk_prepared_free(*texts);
        *texts = nullptr;
    }
    return code;
}

int64_t tk_prepared_text(const tk_prepared *texts, int32_t which, int64_t group,
                         const char **text) {
    const auto &all = which == 0   ? texts->names
                      : which == 1 ? texts->json
                      : which == 2 ? texts->classes
                      : which == 3 ? texts->levels
                      : which == 4 ? texts->marks
                                   : texts->unlike;
    *text = all[group].data();
    return (int64_t)all[group].size();
}

const int32_t *tk_prepared_categories(const tk_prepared *texts, int64_t group, int64_t *n) {
    *n = (int64_t)texts->categories[group].size() / 2;
    return texts->categories[group].data();
}

void tk_prepared_free(tk_prepared *texts) {
    delete texts;
}
