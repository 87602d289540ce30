// Serialised counts of columns: the message of a part about its rows, and the sum of parts.
#include <algorithm>
#include <cstdio>
#include <unordered_map>

#include "../../shared/pool.hpp"
#include "census.hpp"

namespace tusk {
namespace {

// The columns of rows, which have to be the same in all parts.
std::string schema_text(const tusk_schema *schema) {
    std::string text{(char)('0' + schema->text_label), (char)('0' + schema->f64)};
    for (int32_t j = 0; j < schema->n_columns; j++)
        text.append(schema->name[j]).append({'\0', (char)('0' + schema->kind[j])});
    return text;
}

// The keys of the levels of a category.
std::vector<std::string> keys_of(const Column &c) {
    std::vector<std::string> found(c.levels.begin(), c.levels.end());
    if (!c.of_numbers)
        return found;
    for (size_t x = 0; x < c.code.small.size(); x++)
        if (c.code.small[x] != NONE)
            found[(size_t)c.code.small[x]] = key_of((double)x);
    for (auto [x, place] : c.code.others)
        found[(size_t)place] = key_of(x);
    return found;
}

ColumnCounts counted(const Columns &all, const tk_preparing *how, const Column &c,
                     const Seen &seen) {
    ColumnCounts out{{}, seen.missing, seen.n, seen.sum};
    if (c.kind == Kind::WORDS)
        for (uint64_t bucket : buckets_in(all, how, c))
            out.count[key_of(bucket)] = 1;
    if (!c.is_category())
        return out;
    std::vector<std::string> keys = keys_of(c);
    for (size_t k = 0; k < keys.size(); k++)
        out.count[keys[k]] = seen.count[k];
    return out;
}

int count_own(const tusk_group *group, const tk_preparing *how, tk_census *out,
              std::string *error) {
    Columns columns;
    if (int code = list_columns(group, how, &columns, error))
        return code;
    number_levels(how, &columns);
    if (int code = find_levels(group, how, how->threads, &columns, error))
        return code;
    std::vector<Seen> seen(columns.columns.size());
    if (int code = look_at_rows(group, how, how->threads, columns, seen))
        return code;
    for (size_t j = 0; j < seen.size(); j++)
        out->columns.push_back(counted(columns, how, columns.columns[j], seen[j]));
    out->columns.emplace_back();
    for (std::string_view level : columns.label.levels)
        out->columns.back().count[std::string(level)] = 1;
    return TK_OK;
}

// Counts combinations, once the features of the other columns are known.
int count_combinations(const tusk_group *group, const tk_preparing *how, tk_census *out,
                       std::string *error) {
    Columns columns;
    if (int code = decide_own(group, how, how->threads, &columns, error))
        return code;
    std::vector<Combinations> counts;
    if (int code = count_products(group, how, columns, &counts))
        return code;
    const size_t n = columns.columns.size();
    out->products = true;
    out->columns.resize(n + 1);
    for (size_t k = 0; k < counts.size(); k++)
        for (auto [key, rows] : counts[k])
            out->columns[n - counts.size() + k].count[key_of(key)] = rows;
    return TK_OK;
}

template <class T> void write(std::string &out, T x) {
    out += key_of(x);
}

void write_text(std::string &out, const std::string &text) {
    write(out, (uint64_t)text.size());
    out += text;
}

// Reads the counts in the order of writing; `wrong` once it is out of bounds.
struct Reader {
    const char *at, *end;
    bool wrong = false;

    std::string take(uint64_t n) {
        wrong |= n > (uint64_t)(end - at);
        std::string found = wrong ? "" : std::string(at, n);
        at += found.size();
        return found;
    }
    template <class T> T number() {
        std::string found = take(sizeof(T));
        return wrong ? T{} : of_key<T>(found);
    }
    std::string text() { return take(number<uint64_t>()); }
};

ColumnCounts read_counted(Reader &in) {
    ColumnCounts c;
    c.missing = in.number<int64_t>();
    c.n = in.number<int64_t>();
    in.wrong |= !c.sum.of_digits(in.number<ExactSum::Digits>());
    uint64_t n = in.number<uint64_t>();
    for (uint64_t k = 0; k < n && !in.wrong; k++) {
        std::string key = in.text();
        c.count[key] = in.number<int64_t>();
    }
    return c;
}

int add(tk_census *census, Reader in) {
    std::string schema = in.text();
    bool products = in.number<uint8_t>();
    const uint64_t n = in.number<uint64_t>();
    if (n > (uint64_t)(in.end - in.at)) // each has more than a byte
        return TK_REFUSED;
    std::vector<ColumnCounts> columns(n);
    for (ColumnCounts &c : columns)
        c = read_counted(in);
    if (in.wrong)
        return TK_REFUSED;
    if (census->schema.empty()) {
        census->schema = schema;
        census->columns.resize(columns.size());
    }
    if (schema != census->schema || columns.size() != census->columns.size())
        return TK_REFUSED;
    census->products |= products;
    for (size_t j = 0; j < columns.size(); j++)
        census->columns[j].add(columns[j]);
    return TK_OK;
}

std::string bytes_of(const tk_census &census) {
    std::string out;
    write_text(out, census.schema);
    write(out, (uint8_t)census.products);
    write(out, (uint64_t)census.columns.size());
    for (const ColumnCounts &c : census.columns) {
        write(out, c.missing);
        write(out, c.n);
        write(out, c.sum.digits());
        write(out, (uint64_t)c.count.size());
        for (const auto &[key, n] : c.count) {
            write_text(out, key);
            write(out, n);
        }
    }
    return out;
}

} // namespace

int check_census(const tusk_group *group, const tk_preparing *how, const Columns &columns,
                 std::string *error) {
    if (!how->census || (how->census->schema == schema_text(group->parts->schema) &&
                         how->census->columns.size() == columns.columns.size() + 1))
        return TK_OK;
    *error = "columns of a group have other names or types in another file, expected the same "
             "everywhere";
    return TK_REFUSED;
}

} // namespace tusk

tk_census *tk_census_new(void) {
    return new (std::nothrow) tk_census;
}

void tk_census_free(tk_census *census) {
    delete census;
}

int tk_census_count(tk_census *census, const tusk_group *group, const tk_preparing *how,
                    char *error) {
    using namespace tusk;
    return code_of([&] {
        std::string why;
        *census = tk_census();
        census->schema = schema_text(group->parts->schema);
        int code = how->census ? count_combinations(group, how, census, &why)
                               : count_own(group, how, census, &why);
        std::snprintf(error, TK_PREPARE_ERROR, "%s", why.c_str());
        return code;
    });
}

int tk_census_add(tk_census *census, const char *bytes, int64_t n) {
    return tusk::code_of([&] { return tusk::add(census, {bytes, bytes + n}); });
}

int64_t tk_census_bytes(const tk_census *census, char *bytes, int64_t room) {
    using namespace tusk;
    int64_t size = -1;
    int code = code_of([&] {
        std::string out = bytes_of(*census);
        size = (int64_t)out.size();
        if (size <= room)
            std::memcpy(bytes, out.data(), out.size());
        return (int)TK_OK;
    });
    return code == TK_OK ? size : -1;
}
